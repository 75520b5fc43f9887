// Takes typed values out of a JSON object; remembers the first thing that is wrong with it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::protocol {

/// After the last field is read, `error` says whether all of them were good; until then a bad
/// field reads as the default. `object` must be a JSON object and outlive the fields.
class JsonFields {
 public:
  explicit JsonFields(const nlohmann::json& object) : object_(object) {}

  /// Empty: all good. Else "key “step” is no whole number from 0 to 4294967295".
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] bool has(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && !found->is_null();
  }

  template <class T>
  [[nodiscard]] T whole(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() ||
        value->template get<std::uint64_t>() > std::numeric_limits<T>::max()) {
      return fail<T>(
          key, "is no whole number from 0 to " + std::to_string(std::numeric_limits<T>::max()));
    }
    return static_cast<T>(value->template get<std::uint64_t>());
  }
  [[nodiscard]] double number(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) return 0;
    return value->is_number() ? value->get<double>() : fail<double>(key, "is no number");
  }
  [[nodiscard]] bool boolean(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) return false;
    return value->is_boolean() ? value->get<bool>() : fail<bool>(key, "is not true or false");
  }
  [[nodiscard]] std::string text(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) return {};
    return value->is_string() ? value->get<std::string>() : fail<std::string>(key, "is no string");
  }
  /// An object (or else a list); nullptr and an error if it is not.
  [[nodiscard]] const nlohmann::json* nested(const char* key, bool object) {
    const auto* value = find(key);
    if (value == nullptr) return nullptr;
    if (object ? value->is_object() : value->is_array()) return value;
    fail<bool>(key, object ? "is no object" : "is no list");
    return nullptr;
  }
  /// For errors that only the caller can see; the first one stays.
  void add_error(const std::string& error) {
    if (error_.empty()) error_ = error;
  }

 private:
  [[nodiscard]] const nlohmann::json* find(const char* key) {
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    fail<bool>(key, "is missing");
    return nullptr;
  }
  template <class T>
  T fail(const char* key, const std::string& trouble) {
    add_error("key \"" + std::string(key) + "\" " + trouble);
    return T{};
  }

  const nlohmann::json& object_;
  std::string error_;
};

}  // namespace dlaunch::protocol
