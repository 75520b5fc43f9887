// dlaunch without its command line: what the keeper's process and the controller's process run.
#include <string>

#include "launcher/controller/io/controller_process.h"
#include "launcher/controller/io/keeper.h"

int main(int count, char** words) {
  using namespace dlaunch::launcher::controller;
  if (count != 3) return 64;
  return std::string(words[1]) == "__controller" ? run_controller(words[2]) : run_keeper(words[2]);
}
