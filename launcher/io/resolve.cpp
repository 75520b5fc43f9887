#include "launcher/io/resolve.h"

#include <sys/socket.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "launcher/io/ssh_dial.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

constexpr nanoseconds kInterruptSlice = 20ms;

/// A question to the resolver's own threads, which write into it until it is answered.
struct Lookup {
  std::string name;
  std::string port;
  addrinfo hints{};
  gaicb question{};

  Lookup(std::string asked_name, std::uint16_t asked_port)
      : name(std::move(asked_name)), port(std::to_string(asked_port)) {
    hints.ai_socktype = SOCK_STREAM;
    question.ar_name = name.c_str();
    question.ar_service = port.c_str();
    question.ar_request = &hints;
  }
};

/// Leaves a question that the resolver still works on to it: it cannot be ended, and there is at
/// most one for each dial that timed out.
struct LookupDeleter {
  void operator()(Lookup* lookup) const {
    if (::gai_cancel(&lookup->question) == EAI_NOTCANCELED) return;
    delete lookup;
  }
};

bool is_answered(Lookup& lookup, nanoseconds at_most) {
  const gaicb* const questions[] = {&lookup.question};
  const timespec wait{static_cast<std::time_t>(at_most / 1s),
                      static_cast<long>((at_most % 1s).count())};
  ::gai_suspend(questions, 1, &wait);
  return ::gai_error(&lookup.question) != EAI_INPROGRESS;
}

}  // namespace

Planting<Addresses> resolve(const std::string& name, std::uint16_t port, const Deadline& deadline,
                            const Interrupt& interrupt) {
  const std::unique_ptr<Lookup, LookupDeleter> lookup(new Lookup(name, port));
  gaicb* questions[] = {&lookup->question};
  const int code = ::getaddrinfo_a(GAI_NOWAIT, questions, 1, nullptr);
  if (code != 0) return plant_failure(Cause::unresolved, ::gai_strerror(code));
  while (!is_answered(*lookup, std::min(deadline.left(), kInterruptSlice))) {
    if (interrupt.interrupted()) return plant_failure(Cause::cancelled, "");
    if (deadline.over()) {
      return plant_failure(Cause::unresolved, "the name service does not answer");
    }
  }
  const int answer = ::gai_error(&lookup->question);
  if (answer != 0) return plant_failure(Cause::unresolved, ::gai_strerror(answer));
  return Addresses(lookup->question.ar_result);
}

}  // namespace dlaunch::launcher::io
