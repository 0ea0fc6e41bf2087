#include "options.hpp"

#include <CLI/CLI.hpp>
#include <limits>

#include "dtrain/base/error.hpp"

namespace dtrain {

struct Options::Impl {
  explicit Impl(const std::string& about) : app(about) {}
  CLI::App app;
};

Options::Options(const std::string& about) : impl_(std::make_unique<Impl>(about)) {}
Options::~Options() = default;

void Options::number(const std::string& name, int64_t& value, const std::string& help, int64_t least) {
  impl_->app.add_option(name, value, help)->check(CLI::Range(least, std::numeric_limits<int64_t>::max()));
}

void Options::seed(uint64_t& value) { impl_->app.add_option("--seed", value, "another seed, other faults"); }

void Options::text(const std::string& name, std::string& value, const std::string& help) {
  impl_->app.add_option(name, value, help);
}

void Options::require_any(const std::vector<std::string>& names) {
  CLI::Option_group* group = impl_->app.add_option_group("what");
  for (const std::string& name : names) group->add_option(impl_->app.get_option(name));
  group->require_option(1, names.size());
}

std::optional<int> Options::read(int argc, char** argv) {
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return impl_->app.exit(error) == 0 ? exit_code::kDone : exit_code::kUsage;
  }
  return std::nullopt;
}

}  // namespace dtrain
