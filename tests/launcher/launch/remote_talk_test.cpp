#include "launcher/launch/remote_talk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kMagic = magic_line("abc");
const std::string kWhole = "Last login: today\nready\tx\t1\t/nowhere\t1\n\n" + kMagic +
                           "\nmore\nready\tx86_64\t1000\t/var/tmp/dlaunch-1000\t0\ncopied\n"
                           "{\"state\":\"started\",\"pid\":42}\n"
                           "{\"state\":\"dialing\",\"address\":\"10.0.0.1:29600\",\"more\":[1]}\n"
                           "{\"state\":\"welcomed\"}\n";

std::string told(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    if (const auto* facts = std::get_if<HostFacts>(&word)) {
      text += "facts " + facts->machine + " " + std::to_string(facts->uid) + " " +
              facts->directory + (facts->has_agent ? " has; " : " lacks; ");
    } else if (std::holds_alternative<MoreWanted>(word)) {
      text += "more; ";
    } else if (std::holds_alternative<AgentCopied>(word)) {
      text += "copied; ";
    } else if (const auto* started = std::get_if<AgentStarted>(&word)) {
      text += "started " + std::to_string(started->pid) + "; ";
    } else if (const auto* dialing = std::get_if<AgentDialing>(&word)) {
      text += "dialing " + dialing->address + "; ";
    } else if (const auto* notice = std::get_if<HostNotice>(&word)) {
      text += "notice " + notice->sentence + "; ";
    } else if (std::holds_alternative<AgentWelcomed>(word)) {
      text += "welcomed; ";
    } else if (std::holds_alternative<AgentTunnel>(word)) {
      text += "tunnel; ";
    } else {
      const auto& failed = std::get<StartFailed>(word);
      text += std::string("failed ") + to_string(failed.cause) + " " + failed.directory + " " +
              failed.detail + "; ";
    }
  }
  return text;
}

TEST(RemoteTalk, IsUnderstoodWhereverItIsCut) {
  for (std::size_t cut = 0; cut <= kWhole.size(); ++cut) {
    RemoteTalk talk(kMagic);
    auto words = talk.take(std::string_view(kWhole).substr(0, cut));
    const auto rest = talk.take(std::string_view(kWhole).substr(cut));
    words.insert(words.end(), rest.begin(), rest.end());
    ASSERT_EQ(told(words),
              "more; facts x86_64 1000 /var/tmp/dlaunch-1000 lacks; copied; started 42; "
              "dialing 10.0.0.1:29600; welcomed; ")
        << "cut at " << cut;
  }
}

TEST(RemoteTalk, KeepsTheFirstNoiseForTheSentence) {
  RemoteTalk talk(kMagic);
  EXPECT_TRUE(talk.take("This account is currently not available.\n").empty());
  EXPECT_FALSE(talk.begun());
  EXPECT_THAT(talk.noise(), HasSubstr("not available"));
}

TEST(RemoteTalk, BoundsTheNoiseWithAndWithoutNewlines) {
  RemoteTalk lines(kMagic);
  std::size_t taken = 0;
  std::vector<Word> words;
  while (words.empty() && taken < 10 * kNoiseBytesMax) {
    words = lines.take("spam and more spam\n");
    taken += 19;
  }
  EXPECT_LE(taken, kNoiseBytesMax + 19);
  EXPECT_THAT(told(words), HasSubstr("login scripts print without an end"));
  EXPECT_TRUE(lines.take(kWhole).empty()) << "nothing is believed after that";

  RemoteTalk one_line(kMagic);
  EXPECT_THAT(told(one_line.take(std::string(kNoiseBytesMax + 1, 'x'))),
              HasSubstr("without an end"));
}

TEST(RemoteTalk, RefusesWhatBreaksTheRules) {
  const std::string start = kMagic + "\n";
  for (const std::string line :
       {"hello", "ready\tx86_64\t1000\t/x", "ready\tx86_64\tten\t/x\t1", "ready\tx\t1\tx\t1",
        "failed\tscratch_full", "{\"state\":", "{\"state\":\"odd\"}", "[1]", "{\"pid\":1}"}) {
    RemoteTalk talk(kMagic);
    EXPECT_THAT(told(talk.take(start + line + "\n")), HasSubstr("failed agent_failed")) << line;
  }
  RemoteTalk long_line(kMagic);
  EXPECT_THAT(told(long_line.take(start + std::string(kTalkLineBytesMax + 1, 'x'))),
              HasSubstr("failed agent_failed"));
}

TEST(RemoteTalk, PassesNoticesAndCausesOn) {
  RemoteTalk talk(kMagic);
  EXPECT_EQ(told(talk.take(kMagic + "\nnotice\tmind the gap\n")), "notice mind the gap; ");
  EXPECT_EQ(told(talk.take("failed\tscratch_full\t/local\t0 KiB free\n")),
            "failed scratch_full /local 0 KiB free; ");
  EXPECT_EQ(told(talk.take("{\"state\":\"failed\",\"cause\":\"cannot_dial_back\","
                           "\"sentence\":\"no route\"}\n")),
            "failed cannot_dial_back  no route; ");
  EXPECT_EQ(told(talk.take("failed\tnew_in_a_later_version\t\tx\n")), "failed agent_failed  x; ");
}

TEST(RemoteTalk, ReadsNoLineBehindTheBeginningOfATunnel) {
  RemoteTalk talk("magic");
  const auto words = talk.take("magic\n{\"state\":\"tunnel\"}\n\x16\n\nbytes");
  ASSERT_EQ(words.size(), 1);
  EXPECT_TRUE(std::holds_alternative<AgentTunnel>(words[0]));
  EXPECT_TRUE(talk.take(" more\n").empty());
  EXPECT_EQ(talk.take_rest(), "\x16\n\nbytes more\n");
}

TEST(StartScript, QuotesWhatItIsTold) {
  const StartScript script{
      "abc", "kjv-1", "gpu01", "/my $(reboot) 'dir'", {{"/x", "x86_64", "ff", 10}}};
  const std::string text = to_text(script);
  EXPECT_THAT(text, HasSubstr("dlaunch_quick '/my $(reboot) '\\''dir'\\'''\n"));
  EXPECT_THAT(text, HasSubstr("dlaunch_job='kjv-1' dlaunch_host='gpu01'\n"));
  EXPECT_THAT(text, HasSubstr("'x86_64') dlaunch_hash='ff' dlaunch_size=10 ;;"));
  EXPECT_THAT(rest_of(script), HasSubstr("dlaunch_start '/my $(reboot) '\\''dir'\\'''\n"));
  EXPECT_THAT(rest_of({"abc", "kjv-1", "gpu01", "~/scratch", {}}),
              HasSubstr("dlaunch_start \"$HOME\"/'scratch'\n"));
  EXPECT_THAT(rest_of({"abc", "kjv-1", "gpu01", "", {}}),
              HasSubstr("/var/tmp /tmp \"$HOME/.cache\"\n"));
}

TEST(StartScript, LooksAtAnAgentBeforeItRunsItWhenAskedTo) {
  StartScript script{"abc", "kjv-1", "gpu01", "", {{"/x", "x86_64", "ff", 10}}};
  EXPECT_THAT(to_text(script), HasSubstr("dlaunch_quick /var/tmp\n"));
  script.thorough = true;
  EXPECT_THAT(to_text(script), Not(HasSubstr("dlaunch_quick /var/tmp\n")));
}

}  // namespace
}  // namespace dlaunch::launcher::launch
