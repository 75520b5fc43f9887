// Every bound of the wire, next to why it has that size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlaunch::protocol {

constexpr std::uint32_t kProtocolVersion = 2;
/// Of the worker socket.
constexpr std::uint32_t kWorkerProtocolVersion = 1;
constexpr const char* kGroupMain = "main";

/// Before a peer has proved its key it may send a Hello only.
constexpr std::size_t kHelloBytesMax = 64 * 1024;
/// Assign is the largest: kRanksMax ports of 2 bytes, 65,536 places of at most 20.
constexpr std::size_t kFrameBytesMax = 4 * 1024 * 1024;
/// 65,536 hosts with eight ranks.
constexpr std::size_t kRanksMax = 512 * 1024;
/// A numeric address with a zone, or a host's name.
constexpr std::size_t kAddressBytesMax = 255;
constexpr std::size_t kLogFrameBytesMax = 16 * 1024;
/// Log bytes waiting for one connection; what does not fit is dropped and counted.
constexpr std::size_t kLogQueueBytesMax = 64 * 1024;
/// Frames other than logs waiting for one connection; a peer that is further behind is closed.
constexpr std::size_t kSendQueueBytesMax = 8 * 1024 * 1024;
/// Evidence kept by an agent until acknowledged; the oldest goes first. All of it is sent at once
/// on another connection, so that it must fit what may wait for one.
constexpr std::size_t kEvidenceKeptMax = 1024;
constexpr std::size_t kEvidenceBytesMax = kSendQueueBytesMax / 2;
constexpr std::size_t kWorkerLineBytesMax = 64 * 1024;
constexpr std::size_t kLastLinesMax = 20;
constexpr std::size_t kLastLineBytesMax = 512;
/// TLS handshakes not finished yet; more are refused at once, before any key is looked at.
constexpr std::size_t kHandshakesPendingMax = 256;

}  // namespace dlaunch::protocol
