// What a checkpoint's files say of themselves.
#include <string>

#include "base/check.h"
#include "tests/fuzz/target.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

namespace dlaunch::fuzz {

void manifest(std::string_view bytes) {
  const auto parsed = checkpoint::parse_manifest(bytes);
  if (!parsed) {
    DL_CHECK(!parsed.error().text().empty(), "a refusal has a reason");
    return;
  }
  const auto text = checkpoint::format_manifest(*parsed);
  const auto again = checkpoint::parse_manifest(text);
  DL_CHECK(again && checkpoint::format_manifest(*again) == text, "a manifest survives its text");
}

void safetensors_header(std::string_view bytes) {
  // The bytes of data that the header must cover come first, so that some headers fit.
  std::uint64_t data_bytes = 0;
  for (int i = 0; i < 4 && !bytes.empty(); ++i) {
    data_bytes = data_bytes * 256 + static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
  }
  const auto tensors = checkpoint::parse_header(bytes, data_bytes);
  if (!tensors) {
    DL_CHECK(!tensors.error().text().empty(), "a refusal has a reason");
    return;
  }
  std::uint64_t end = 0;
  for (const auto& tensor : *tensors) {
    DL_CHECK(tensor.first_byte == end, "the data is covered without gap or overlap");
    end += tensor.bytes;
  }
  DL_CHECK(end == data_bytes, "to its end");
}

}  // namespace dlaunch::fuzz
