// A shell on a host over one libssh connection.
#pragma once

#include <libssh/libssh.h>

#include <memory>
#include <string>

#include "launcher/io/ssh_dial.h"
#include "launcher/io/ssh_settings.h"
#include "launcher/io/start_shell.h"

namespace dlaunch::launcher::io {

struct SshOptions {
  bool accept_new_host_keys = false;
};

/// A session belongs to the thread that opened it.
class SshShell final : public StartShell {
 public:
  /// Dials, checks the host key, logs in and runs `command`. `deadline` bounds all of it.
  [[nodiscard]] static Planting<std::unique_ptr<SshShell>> open(const SshSettings& settings,
                                                                SshOptions options,
                                                                const std::string& command,
                                                                const Deadline& deadline,
                                                                Interrupt& interrupt);
  SshShell(const SshShell&) = delete;
  SshShell& operator=(const SshShell&) = delete;
  ~SshShell() override;

  [[nodiscard]] Planting<void> write(std::string_view bytes, const Deadline& deadline) override;
  [[nodiscard]] Planting<std::string> read(const Deadline& deadline) override;
  [[nodiscard]] int descriptor() const override { return dialled_.socket.get(); }
  [[nodiscard]] std::string errors() override;

  /// For the user: a host key that was accepted; empty: none.
  [[nodiscard]] const std::string& notice() const { return notice_; }

 private:
  struct SessionDeleter {
    void operator()(ssh_session session) const;
  };
  struct ChannelDeleter {
    void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
  };

  SshShell(Dialled dialled, Interrupt& interrupt);
  [[nodiscard]] Planting<void> shake_hands(const SshSettings& settings, SshOptions options,
                                           const Deadline& deadline);
  [[nodiscard]] Planting<void> check_host_key(const SshSettings& settings, SshOptions options);
  [[nodiscard]] Planting<void> log_in(const SshSettings& settings, const Deadline& deadline);
  [[nodiscard]] int try_file(const std::string& path, bool& loaded);
  [[nodiscard]] Planting<void> run(const std::string& command, const Deadline& deadline);
  void allow(const Deadline& deadline);
  [[nodiscard]] tl::unexpected<PlantFailure> broken(launch::Cause cause, const Deadline& deadline);
  void drain_errors();

  Dialled dialled_;  ///< libssh has its own copy of the socket
  Interrupt& interrupt_;
  std::unique_ptr<ssh_session_struct, SessionDeleter> session_;
  std::unique_ptr<ssh_channel_struct, ChannelDeleter> channel_;
  std::string errors_;
  std::string notice_;
};

}  // namespace dlaunch::launcher::io
