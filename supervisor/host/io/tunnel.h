// The way of an agent that cannot dial back: `plant`, which the SSH connection ends at, offers a
// Unix socket and passes on what is said there, unread.
#pragma once

#include <string>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::supervisor::host {

/// The agent's side: connected to the plant that offers a tunnel in this directory, which is the
/// host's own. An error: nobody does.
[[nodiscard]] Result<FileDescriptor> take_tunnel(const std::string& directory);

/// The plant's side: `<directory>/tunnel.sock`, 0600, there until it is taken or destroyed.
class TunnelOffer {
 public:
  [[nodiscard]] static Result<TunnelOffer> open(const std::string& directory);
  TunnelOffer(TunnelOffer&& other) noexcept;
  TunnelOffer& operator=(TunnelOffer&&) = delete;
  TunnelOffer(const TunnelOffer&) = delete;
  TunnelOffer& operator=(const TunnelOffer&) = delete;
  ~TunnelOffer();

  /// Readable when somebody takes it.
  [[nodiscard]] int descriptor() const { return listener_.get(); }
  /// Who takes it; nobody else can from then on.
  [[nodiscard]] Result<FileDescriptor> accept();

 private:
  TunnelOffer(FileDescriptor directory, FileDescriptor listener, std::string own_name);
  void withdraw();

  FileDescriptor directory_;
  FileDescriptor listener_;
  std::string own_name_;  ///< another plant may have put its own in the place of ours
};

/// Passes bytes on both ways until one side ends. `input` and `output` become non-blocking.
void pass_bytes(int input, int output, int socket);

}  // namespace dlaunch::supervisor::host
