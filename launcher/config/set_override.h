// --set key=value: one key of train.toml, overridden on the command line.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "launcher/config/section.h"

namespace dlaunch::launcher::config {

/// Puts `override` ("job.name=x") into `document`. The value is read as TOML, and as a plain string
/// where it is none: `--set job.hosts=2..4` needs no quotes. What is wrong goes to `reading`, with
/// "--set …" as its place, also when the value turns out wrong later.
void set_override(toml::table& document, const std::string& override, Reading& reading);

}  // namespace dlaunch::launcher::config
