// Something to be done once, later: as std::function, but moved only and stored in place.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace dlaunch::simulation {

/// Holds what is called in `Bytes` of its own; what is larger lies on the heap. A simulated cluster
/// has thousands of them waiting, each for one call.
template <std::size_t Bytes>
class Action {
 public:
  Action() = default;
  template <class Call>
  requires(!std::is_same_v<std::remove_cvref_t<Call>, Action>)
      // NOLINTNEXTLINE(google-explicit-constructor): a lambda is an action
      Action(Call&& call) {
    using Held = std::remove_cvref_t<Call>;
    if constexpr (sizeof(Held) <= Bytes && alignof(Held) <= kAlignment) {
      ::new (place()) Held(std::forward<Call>(call));
      kind_ = &kKind<Held>;
    } else {
      auto far = [held = std::make_unique<Held>(std::forward<Call>(call))] { (*held)(); };
      ::new (place()) decltype(far)(std::move(far));
      kind_ = &kKind<decltype(far)>;
    }
  }
  Action(Action&& other) noexcept { take(other); }
  Action& operator=(Action&& other) noexcept {
    if (this == &other) return *this;
    reset();
    take(other);
    return *this;
  }
  ~Action() { reset(); }

  void operator()() { kind_->call(place()); }
  void reset() {
    if (kind_ != nullptr) std::exchange(kind_, nullptr)->destroy(place());
  }

 private:
  static constexpr std::size_t kAlignment = alignof(void*);

  struct Kind {
    void (*call)(void*);
    void (*move)(void* from, void* to);  ///< and ends what was moved from
    void (*destroy)(void*);
  };
  template <class Held>
  static constexpr Kind kKind = {[](void* held) { (*static_cast<Held*>(held))(); },
                                 [](void* from, void* to) {
                                   ::new (to) Held(std::move(*static_cast<Held*>(from)));
                                   static_cast<Held*>(from)->~Held();
                                 },
                                 [](void* held) { static_cast<Held*>(held)->~Held(); }};

  [[nodiscard]] void* place() { return bytes_.data(); }
  void take(Action& other) {
    kind_ = std::exchange(other.kind_, nullptr);
    if (kind_ != nullptr) kind_->move(other.place(), place());
  }

  const Kind* kind_ = nullptr;
  alignas(kAlignment) std::array<std::byte, Bytes> bytes_;
};

}  // namespace dlaunch::simulation
