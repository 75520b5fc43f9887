#include "launcher/controller/io/moments.h"

namespace dlaunch::launcher::controller {

void moment_before(const Command&) {}
void moment_on_disk(std::string_view) {}

}  // namespace dlaunch::launcher::controller
