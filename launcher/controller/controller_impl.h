// The inside of the controller. Included by controller*.cpp only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/dense_map.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/peer_book.h"
#include "launcher/controller/preflight.h"
#include "launcher/controller/standing_orders.h"

namespace dlaunch::launcher::controller {

class Controller::Impl {
 public:
  Impl(Setting setting, Rng& rng, Instant now);
  std::vector<Command> step(Instant now, Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  [[nodiscard]] std::vector<HostView> hosts() const;
  [[nodiscard]] supervisor::job::View job() const { return job_.view(); }
  [[nodiscard]] std::string why_not_drain(HostId host) const {
    return coordinator_.why_not_drain(host);
  }

 private:
  struct Host {
    std::string name;
    std::uint64_t connection = 0;  ///< 0: none
    std::uint64_t agent = 0;
    std::uint32_t agent_pid = 0;
    std::uint64_t heartbeats = 0;
    bool over_ssh = false;     ///< its newest connection
    bool cannot_dial = false;  ///< it needed that, and has not dialled since
    protocol::Facts facts;
  };
  using Inner = std::variant<launch::Event, rendezvous::Event, supervisor::job::Event>;

  // ---- events from outside
  void on(Instant now, const Begin&);
  void on(Instant, const LaunchReported& e) { inner_.push_back(e.event); }
  void on(Instant, const ForJob& e) { inner_.push_back(e.event); }
  void on(Instant, const DrainAsked& e) {
    inner_.push_back(supervisor::job::Event{supervisor::job::MembershipAsked{e.host, true}});
    tell(rendezvous::DrainAsked{e.host});
  }
  void on(Instant, const AddAsked& e) {
    inner_.push_back(supervisor::job::Event{supervisor::job::MembershipAsked{e.host, false}});
    tell(rendezvous::AddAsked{e.host});
  }
  void on(Instant now, const QuietUntil& e) {
    if (e.host) return tell(rendezvous::QuietUntil{*e.host, e.until});
    beat_due_ = std::max(now, e.until);
  }
  void on(Instant, const Stalled& e) { tell(rendezvous::Stalled{e.gap}); }
  void on(Instant now, const DeadlineDue&);
  void on(Instant, const AgentConnectionClosed& e);
  void on(Instant now, AgentFrameCame& e);

  // ---- agents
  void reach_again(HostId id, const std::string& why);
  void on_hello(Instant now, const AgentFrameCame& e, Host& host);
  void note_way(HostId id, Host& host, const protocol::Hello& hello, bool same);
  void on_ready(Instant now, const AgentFrameCame& e, Host& host);
  void on_judged(HostId id, const Preflight::Verdict& verdict);
  void send(std::vector<HostId> hosts, Generation generation, protocol::ControllerFrame frame);
  [[nodiscard]] std::vector<HostId> connected() const;
  void beat(Instant now);
  void send_peers(Instant now);
  [[nodiscard]] supervisor::job::Record record(std::string event, HostId host,
                                               std::string detail) const {
    return {std::move(event), newest_, host, {}, {}, std::move(detail)};
  }
  void tell(rendezvous::Event event) { inner_.push_back(std::move(event)); }

  // ---- between the machines: a queue, so that none is entered while it runs
  void drain(Instant now);
  template <class Commands>
  void pass(Commands commands, Instant now) {
    for (auto& command : commands) {
      std::visit([&](auto& c) { carry(now, c); }, command);
    }
  }
  void carry(Instant, launch::Plant& c) { out_.push_back(PlantOrder{std::move(c)}); }
  void carry(Instant, launch::CancelPlant& c) { out_.push_back(PlantOrder{std::move(c)}); }
  void carry(Instant, launch::HostPlanted&) {}
  void carry(Instant, launch::HostFailed& c);
  void carry(Instant, rendezvous::HostBecame& c);
  void carry(Instant, rendezvous::HostSuspected& c);
  void carry(Instant, rendezvous::HostCleared& c);
  void carry(Instant now, rendezvous::HostLost& c);
  void carry(Instant, rendezvous::DropHost& c);
  void carry(Instant, rendezvous::StillWaiting& c) { out_.push_back(Say{std::move(c.sentence)}); }
  void carry(Instant, rendezvous::Formed& c);
  void carry(Instant, rendezvous::NobodyCameBack& c);
  template <class JobMatter>
  void carry(Instant,
             JobMatter& c) requires std::is_constructible_v<rendezvous::Command, JobMatter> {
    inner_.push_back(supervisor::job::Event{supervisor::job::FromCoordinator{std::move(c)}});
  }
  void carry(Instant, supervisor::job::Send& c);
  void carry(Instant, supervisor::job::Form& c);
  void carry(Instant, supervisor::job::CleanedHost& c) { tell(rendezvous::HostCleaned{c.host}); }
  void carry(Instant, supervisor::job::BlamedHost& c);
  void carry(Instant, supervisor::job::DataLinkJudged& c);
  void carry(Instant now, supervisor::job::Finish& c);
  template <class ForHands>
  void carry(Instant,
             ForHands& c) requires std::is_constructible_v<supervisor::job::Command, ForHands> {
    out_.push_back(FromJob{std::move(c)});
  }

  // ---- the end
  void order_to_leave(std::vector<HostId> ids);
  void left(HostId id);
  void end_when_left();
  void become_superseded(const std::string& who);
  void end();

  Setting setting_;
  launch::Launch launch_;
  rendezvous::Coordinator coordinator_;
  supervisor::job::Job job_;
  Preflight preflight_{setting_.own_files};
  StandingOrders orders_;
  PeerBook peers_{setting_.heartbeat};
  DenseMap<HostId, Host> hosts_;
  std::size_t connected_ = 0;
  Generation newest_ = setting_.recovered.last_generation;
  std::set<HostId> members_;
  Instant beat_due_;
  std::optional<Instant> plant_due_;
  std::optional<Instant> met_until_;  ///< after a restart: agents that live have come by then
  std::optional<Instant> leave_due_;  ///< set from Finish on
  std::set<HostId> leaving_;
  bool ended_ = false;
  bool superseded_ = false;
  int code_ = 0;
  std::string sentence_;
  std::deque<Inner> inner_;
  std::vector<Command> out_;
};

}  // namespace dlaunch::launcher::controller
