// CUDA is reached by name only, so that one trainer serves hosts with and without it.
#include "trainer/model/io/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "trainer/model/staging.h"

namespace dlaunch::trainer {
namespace {

constexpr int kCudaSuccess = 0, kCudaInsufficientDriver = 35, kCudaNoDevice = 100;
constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
constexpr const char* kSetting = "[trainer] device = \"cuda\": ";

struct InUse {
  Device device = Device::cpu;
  std::string name, sentence;
};
InUse& in_use() {
  static InUse one;
  return one;
}

/// Of a library that is loaded already; null: there is none of that name.
template <class Function>
Function* function_named(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::string version_of(int number) {  // 13010: 13.1
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

int runtime_version() {
  int version = 0;
  if (auto* const ask = function_named<int(int*)>("cudaRuntimeGetVersion")) ask(&version);
  return version;
}

std::string visible_devices() {
  const char* const visible = std::getenv(kVisible);
  return visible == nullptr ? "" : std::string(kVisible) + " is \"" + visible + "\"";
}

/// How many devices the process may see, at least one.
Result<int> count_devices() {
  auto* const count = function_named<int(int*)>("cudaGetDeviceCount");
  auto* const words = function_named<const char*(int)>("cudaGetErrorString");
  if (count == nullptr || words == nullptr) {
    return failure(std::errc::no_such_device,
                   std::string(kSetting) +
                       "the LibTorch of this trainer has no CUDA runtime; it "
                       "needs a LibTorch that is built for CUDA "
                       "(scripts/setup-torch installs one)");
  }
  int devices = 0;
  const int code = count(&devices);
  if (code == kCudaSuccess && devices > 0) return devices;
  const std::string reason = words(code == kCudaSuccess ? kCudaNoDevice : code);
  if (code == kCudaInsufficientDriver) {
    return failure(std::errc::no_such_device,
                   std::string(kSetting) + "this host has no NVIDIA driver that CUDA " +
                       version_of(runtime_version()) + " can use (" + reason +
                       "); install or update it (nvidia-smi shows version and devices), take the "
                       "host out of hosts.toml, or set device = \"cpu\"");
  }
  if (const auto visible = visible_devices(); !visible.empty()) {
    return failure(std::errc::no_such_device,
                   std::string(kSetting) + "the worker may see no device of this host: " + visible +
                       "; name devices that nvidia-smi lists, or remove the variable");
  }
  return failure(std::errc::io_error, std::string(kSetting) + reason +
                                          "; the driver is there: nvidia-smi and the kernel's "
                                          "messages say what is wrong with the device");
}

/// By the driver, for the runtime's structures change from version to version.
std::string name_of_device(int index) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);  // loaded: only asked for
  if (driver == nullptr) return "unknown device";
  const auto named = [&](const char* name) { return dlsym(driver, name); };
  auto* const get = reinterpret_cast<int (*)(int*, int)>(named("cuDeviceGet"));
  auto* const get_name = reinterpret_cast<int (*)(char*, int, int)>(named("cuDeviceGetName"));
  std::array<char, 128> name{};
  int handle = 0;
  const bool known = get != nullptr && get_name != nullptr && get(&handle, index) == 0 &&
                     get_name(name.data(), static_cast<int>(name.size()) - 1, handle) == 0;
  return known ? name.data() : "unknown device";
}

std::string matrix_library() {
  auto* const property = function_named<int(int, int*)>("cublasGetProperty");
  if (property == nullptr) return {};
  std::string text = ", cuBLAS ";
  for (const int part : {0, 1, 2}) {  // major, minor, patch
    int value = 0;
    property(part, &value);
    text += (part == 0 ? "" : ".") + std::to_string(value);
  }
  return text;
}

std::string folder_of_libtorch() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&at::globalContext), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

/// What differs between two runs on the same device is refused rather than used.
void ask_for_the_same_bits() {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // nobody reads it
  context.setAllowTF32CuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setSDPUseCuDNN(false);
}

Result<void> open_device(int index) {
  try {
    const c10::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
    c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
    set_place({device, true});
    return {};
  } catch (const std::exception& error) {
    return failure(std::errc::io_error, std::string(kSetting) + "device " + std::to_string(index) +
                                            " cannot be used: " + first_line(error.what()));
  }
}

}  // namespace

void prepare_environment_for_devices() {
  static_cast<void>(setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0));
}

Result<void> load_cuda_half(const std::string& folder) {
  const auto library = folder + "/libtorch_cuda.so";
  if (dlopen(library.c_str(), RTLD_LAZY | RTLD_GLOBAL) != nullptr) return {};
  const char* const why = dlerror();
  return failure(std::errc::no_such_device,
                 std::string(kSetting) + "LibTorch's part for CUDA cannot be loaded (" +
                     (why == nullptr ? library : why) +
                     "); scripts/setup-torch --cuda installs the libraries that it needs");
}

Result<void> use_device(Device device, std::uint32_t local_rank) {
  auto& now = in_use();
  if (device == now.device) return {};
  if (device == Device::cpu || was_used()) {
    // LibTorch starts its threads for devices once, with the first gradient.
    return failure(std::errc::operation_not_permitted,
                   "[trainer] device has changed, and this process has computed on the other one; "
                   "it ends, and one that takes its place begins with the new device");
  }
  const auto devices = count_devices();
  if (!devices) return tl::unexpected(devices.error());
  if (auto loaded = load_cuda_half(folder_of_libtorch()); !loaded) return loaded;
  const int index = static_cast<int>(local_rank % static_cast<std::uint32_t>(*devices));
  if (auto opened = open_device(index); !opened) return opened;
  ask_for_the_same_bits();
  now.device = device;
  now.name = name_of_device(index) + ", CUDA " + version_of(runtime_version()) + matrix_library();
  now.sentence =
      "device " + std::to_string(index) + " of " + std::to_string(*devices) + ", " + now.name;
  return {};
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

const std::string& device_name() { return in_use().name; }
const std::string& device_sentence() { return in_use().sentence; }

}  // namespace dlaunch::trainer
