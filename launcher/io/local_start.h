// A shell on this machine, for hosts with `transport = "local"`: no SSH, the same conversation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/io/child.h"
#include "launcher/io/ssh_dial.h"
#include "launcher/io/start_shell.h"

namespace dlaunch::launcher::io {

class LocalShell final : public StartShell {
 public:
  [[nodiscard]] static Planting<std::unique_ptr<LocalShell>> open(Interrupt& interrupt);
  /// Another program whose stdin and stdout are a shell's, like ssh.
  [[nodiscard]] static Planting<std::unique_ptr<LocalShell>> run(
      const std::vector<std::string>& argv, Interrupt& interrupt);
  LocalShell(const LocalShell&) = delete;
  LocalShell& operator=(const LocalShell&) = delete;
  ~LocalShell() override;

  [[nodiscard]] Planting<void> write(std::string_view bytes, const Deadline& deadline) override;
  [[nodiscard]] Planting<std::string> read(const Deadline& deadline) override;
  [[nodiscard]] int descriptor() const override { return child_.input.get(); }
  [[nodiscard]] std::string errors() override;

 private:
  LocalShell(Child child, Interrupt& interrupt);
  /// False: the deadline is over.
  [[nodiscard]] bool await(short events, const Deadline& deadline);

  Child child_;
  Interrupt& interrupt_;
  std::string errors_;
};

}  // namespace dlaunch::launcher::io
