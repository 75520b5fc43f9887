// Who is in, which generation, which rank: the rendezvous service as a pure machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "rendezvous/command.h"
#include "rendezvous/event.h"
#include "rendezvous/policy.h"

namespace dlaunch::rendezvous {

/// Owned by the controller and used on its thread only. The same calls give the same answers.
class Coordinator {
 public:
  /// `last`: the newest generation of an earlier incarnation (0: none); the next one is higher.
  Coordinator(Policy policy, Generation last, Instant now);
  /// Adopts the generation that an earlier incarnation formed: its members are seated, and each has
  /// `readmit` to say hello; until then nobody is convicted.
  Coordinator(Policy policy, const Plan& adopted, Instant now);
  ~Coordinator();
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;

  [[nodiscard]] std::vector<Command> step(Instant now, const Event& event);
  /// nullopt: nothing to wait for but events.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  /// For status.
  struct HostView {
    HostState state;
    std::string reason;
    std::optional<Instant> last_heard;
  };
  [[nodiscard]] HostView view(HostId host) const;
  /// Why the host cannot be taken out (too few would be left); empty: it can.
  [[nodiscard]] std::string why_not_drain(HostId host) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::rendezvous
