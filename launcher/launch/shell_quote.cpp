#include "launcher/launch/shell_quote.h"

namespace dlaunch::launcher::launch {

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      result += R"('\'')";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

std::string shell_quoted_path(std::string_view path) {
  if (path == "~") return "\"$HOME\"";
  if (path.starts_with("~/")) return "\"$HOME\"/" + shell_quoted(path.substr(2));
  return shell_quoted(path);
}

}  // namespace dlaunch::launcher::launch
