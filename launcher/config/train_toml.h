// train.toml as a TOML document that is parsed already; for the resolved file, which holds more.
#pragma once

#include <toml++/toml.h>

#include <set>
#include <string>

#include "launcher/config/section.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

/// Problems go to `reading`; the result counts only when there are none. Overrides are not applied.
[[nodiscard]] TrainFile read_train(const toml::table& document, const TrainContext& context,
                                   Reading& reading);

/// "[job] name", "[trainer.model] layers", …: all keys that train.toml may have.
[[nodiscard]] std::set<std::string> known_train_keys();

}  // namespace dlaunch::launcher::config
