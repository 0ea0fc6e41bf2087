#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace dtrain {

/// The visitor of visit_fields() (state_fields.hpp) that makes a state's JSON object.
struct StateWriter {
  nlohmann::json object;

  bool has(const char*) const { return true; }
  void count(const char* name, int64_t value, int64_t least, int64_t most);
  void sum(const char* name, uint64_t value);
  void real(const char* name, double value);
  void real_or_none(const char* name, double value);
  void seconds(const char* name, double value);
  void hash(const char* name, const std::string& text);
  void digits(const char* name, const std::string& text);
  void list(const char* name, const std::vector<std::string>& texts);
  void table(const char* name, const std::map<std::string, std::string>& texts);
};

/// The one that reads each field and refuses impossible values. Throws DataError naming `file` and the field,
/// nlohmann's exceptions if a field is absent for which has() was not called. Both arguments outlive it.
class StateReader {
 public:
  StateReader(const nlohmann::json& object, const std::string& file) : object_(object), file_(file) {}

  bool has(const char* name);
  void count(const char* name, int64_t& value, int64_t least, int64_t most);
  void sum(const char* name, uint64_t& value);
  void real(const char* name, double& value);
  void real_or_none(const char* name, double& value);
  void seconds(const char* name, double& value);
  void hash(const char* name, std::string& text);
  void digits(const char* name, std::string& text);
  void list(const char* name, std::vector<std::string>& texts);
  void table(const char* name, std::map<std::string, std::string>& texts);

  /// Throws ConfigError when the object has a field that was not visited: a newer dtrain wrote it. That file is not
  /// damaged, and no older one may be used instead unasked.
  void require_no_others() const;
  [[noreturn]] void refuse(const std::string& name, const std::string& wanted) const;

 private:
  const nlohmann::json& named(const std::string& name);
  std::string text_of(const char* name, const nlohmann::json& text) const;

  const nlohmann::json& object_;
  const std::string& file_;
  std::set<std::string> visited_;
};

}  // namespace dtrain
