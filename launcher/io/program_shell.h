// A shell on a host through the OpenSSH client, for what libssh cannot do: certificates, host CAs,
// keys on a token.
#pragma once

#include <memory>
#include <string>

#include "launcher/io/ssh_dial.h"
#include "launcher/io/ssh_settings.h"
#include "launcher/io/start_shell.h"

namespace dlaunch::launcher::io {

class ProgramShell final : public StartShell {
 public:
  /// Returns once the login is done; `command` runs there then. `deadline` bounds all of it.
  [[nodiscard]] static Planting<std::unique_ptr<ProgramShell>> open(const SshWish& wish,
                                                                    bool accept_new_host_keys,
                                                                    const std::string& command,
                                                                    const Deadline& deadline,
                                                                    Interrupt& interrupt);

  [[nodiscard]] Planting<void> write(std::string_view bytes, const Deadline& deadline) override;
  [[nodiscard]] Planting<std::string> read(const Deadline& deadline) override;
  [[nodiscard]] int descriptor() const override { return pipe_->descriptor(); }
  [[nodiscard]] std::string errors() override { return pipe_->errors(); }

 private:
  explicit ProgramShell(std::unique_ptr<StartShell> pipe) : pipe_(std::move(pipe)) {}
  [[nodiscard]] Planting<void> await_login(const Deadline& deadline);

  std::unique_ptr<StartShell> pipe_;
  std::string read_ahead_;
};

/// Why libssh cannot serve this host, in words for the user; empty: it can.
[[nodiscard]] std::string wants_program(const SshSettings& settings);

}  // namespace dlaunch::launcher::io
