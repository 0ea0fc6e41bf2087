#include <filesystem>

#include "dtrain/config/codec.hpp"

namespace dtrain {

namespace fs = std::filesystem;

namespace {

// Absolute, without `.`, `..` or a slash at the end. Links are left alone.
std::string resolved(const std::string& base, const std::string& path) {
  std::string text = (fs::path(base) / path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

bool begins_elsewhere(const std::string& path) {
  return path.starts_with('/') || path.starts_with("./") || path.starts_with("../") || path == "..";
}

std::string place(const std::string& path, PathRule rule, const PathBases& bases) {
  switch (rule) {
    case PathRule::beside_file:
      return resolved(bases.source, path);
    case PathRule::working_directory:
      return resolved(fs::current_path().string(), path);
    case PathRule::under_root:
      if (begins_elsewhere(path)) return resolved(bases.source, path);
      return bases.data_root.empty() ? path : resolved(bases.data_root, path);
    case PathRule::name_under_root:
      break;
  }
  if (bases.data_root.empty()) return path;
  std::string name = resolved(begins_elsewhere(path) ? bases.source : bases.data_root, path);
  if (name.starts_with(bases.data_root + "/")) name.erase(0, bases.data_root.size() + 1);
  return name;
}

std::string read_path(const YamlNode& node, std::string& out, PathRule rule, const PathBases& bases) {
  if (node.kind != YamlNode::Kind::scalar) return "wants a path, not " + node.what();
  if (node.text.empty()) return "wants a path, not an empty text";
  for (char c :
       node.text)  // a message may begin with the path, so its first character must be printable (base/printable.hpp)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      return "wants a path without control characters, not " + node.what();
  out = place(node.text, rule, bases);
  return "";
}

constexpr const char* kSchema = R"({"type":"string","minLength":1})";

}  // namespace

Codec path_codec(std::string& field, PathRule rule) {
  return {"a path", kSchema,
          [&field, rule](const YamlNode& node, const PathBases& bases) { return read_path(node, field, rule, bases); },
          [&field] { return field.empty() ? "" : yaml_text(field); }};
}

Codec part_path_codec(std::map<std::string, std::string>& field, const std::string& part, PathRule rule) {
  return {"a path", kSchema,
          [&field, part, rule](const YamlNode& node, const PathBases& bases) {
            std::string path;
            const std::string problem = read_path(node, path, rule, bases);
            if (problem.empty()) field[part] = path;
            return problem;
          },
          [&field, part] {
            const auto entry = field.find(part);
            return entry == field.end() ? "" : yaml_text(entry->second);
          }};
}

}  // namespace dtrain
