#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "launcher/controller/io/controller_process.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::launcher::controller {
namespace {

TEST(ProgramPath, IsLookedForWhereTheProgramWillBe) {
  const TemporaryDirectory temporary;
  const auto mine = temporary.text() + "/python3";
  std::ofstream(mine) << "#!/bin/sh\n";
  ::chmod(mine.c_str(), 0755);
  config::ProgramSection program;
  program.command = {"python3", "train.py"};
  program.directory = "/";
  const std::map<std::string, std::string> inherited = {{"PATH", temporary.text()}};
  EXPECT_EQ(program_path(program, inherited), mine);
  program.environment = {{"PATH", "/nowhere"}};
  EXPECT_EQ(program_path(program, inherited), "") << "[program] environment goes before";
  program.environment.clear();
  program.wrap = {"apptainer", "exec", "x.sif"};
  EXPECT_EQ(program_path(program, inherited), "") << "in a container there is another one";
}

}  // namespace
}  // namespace dlaunch::launcher::controller
