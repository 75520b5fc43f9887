#include "supervisor/job/signature.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dlaunch::supervisor::job {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool contains(std::string_view line, std::string_view phrase) {
  return std::search(line.begin(), line.end(), phrase.begin(), phrase.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != line.end();
}

// In this order: what a device or a file system says of itself, then what the program did, then
// what a library noticed, then what a rank sees when another is gone. After the first rank has died
// the others print the later ones, often together with earlier warnings.
constexpr std::array kSignatures = {
    Signature{"uncorrectable ECC error", "gpu_fault", Weight::host_fact},
    Signature{"has fallen off the bus", "gpu_fault", Weight::host_fact},
    Signature{"Failed to initialize NVML", "gpu_fault", Weight::host_fact},
    Signature{"couldn't communicate with the NVIDIA driver", "gpu_fault", Weight::host_fact},
    Signature{"no CUDA-capable device is detected", "gpu_fault", Weight::host_fact},
    Signature{"CUDA error: system not yet initialized", "gpu_fault", Weight::host_fact},
    Signature{"No space left on device", "storage", Weight::ended},
    Signature{"Stale file handle", "storage", Weight::ended},
    Signature{"Transport endpoint is not connected", "storage", Weight::ended},
    Signature{"Read-only file system", "storage", Weight::ended},
    Signature{"Input/output error", "storage", Weight::ended},
    Signature{"CUDA out of memory", "out_of_memory", Weight::ended},
    Signature{"OutOfMemoryError", "out_of_memory", Weight::ended},
    Signature{"DefaultCPUAllocator: can't allocate memory", "out_of_memory", Weight::ended},
    Signature{"DefaultCPUAllocator: not enough memory", "out_of_memory", Weight::ended},
    Signature{"Duplicate GPU detected", "config_error", Weight::ended},
    Signature{"Mismatched NCCL version", "config_error", Weight::ended},
    Signature{"no socket interface found", "config_error", Weight::ended},
    Signature{"async fatal event", "nccl_error", Weight::ended},
    Signature{"communicator encountered a fatal error", "nccl_error", Weight::ended},
    Signature{"Watchdog caught collective operation timeout", "nccl_error", Weight::watchdog},
    Signature{"failure detected by watchdog", "nccl_error", Weight::watchdog},
    Signature{"watchdog got stuck for", "nccl_error", Weight::watchdog},
    Signature{"NCCL WARN", "nccl_error", Weight::watchdog},
    Signature{"flight recorder dump signal from another rank", "", Weight::cascade},
    Signature{"remote process exited or there was a network error", "", Weight::cascade},
    Signature{"Connection closed by remote peer", "", Weight::cascade},
    Signature{"Connection closed by peer", "", Weight::cascade},
    Signature{"Connection reset by peer", "", Weight::cascade},
    Signature{"Connection was likely closed", "", Weight::cascade},
    Signature{"recvValueWithTimeout failed", "", Weight::cascade},
    Signature{"DistNetworkError", "", Weight::cascade},
    Signature{"DistStoreError", "", Weight::cascade},
    Signature{"Broken pipe", "", Weight::cascade},
};

}  // namespace

std::span<const Signature> signatures() { return kSignatures; }

const Signature* find_signature(std::span<const std::string> lines) {
  const auto* const found =
      std::find_if(kSignatures.begin(), kSignatures.end(), [&](const Signature& signature) {
        return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
          return contains(line, signature.phrase);
        });
      });
  return found == kSignatures.end() ? nullptr : found;
}

}  // namespace dlaunch::supervisor::job
