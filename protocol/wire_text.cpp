#include "protocol/wire_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>

#include "base/utf8.h"

namespace dlaunch::protocol {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void make_field_valid(Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  const bool text = field.type() == FieldDescriptor::TYPE_STRING;
  const bool nested = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!text && !nested) return;
  std::string scratch;
  if (!field.is_repeated()) {
    if (nested) return make_text_valid(*reflection.MutableMessage(&message, &field));
    const auto& value = reflection.GetStringReference(message, &field, &scratch);
    if (!is_utf8(value)) reflection.SetString(&message, &field, to_utf8(value));
    return;
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (nested) {
      make_text_valid(*reflection.MutableRepeatedMessage(&message, &field, i));
      continue;
    }
    const auto& value = reflection.GetRepeatedStringReference(message, &field, i, &scratch);
    if (!is_utf8(value)) reflection.SetRepeatedString(&message, &field, i, to_utf8(value));
  }
}

}  // namespace

void make_text_valid(Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const auto* field : fields) make_field_valid(message, *field);
}

}  // namespace dlaunch::protocol
