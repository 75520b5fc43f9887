// Files of token ids: each format told apart, read, and refused in words when it cannot be right.
#include "trainer/data/token_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "trainer/data/io/training_data.h"
#include "trainer/data/io/write_tokens.h"
#include "trainer/data/order.h"

namespace dlaunch::trainer {
namespace {

using checkpoint::read_file;
using checkpoint::write_file;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Number>
std::string packed(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t tokens,
                 const std::string& ids) {
  std::vector<std::int32_t> head(256);
  head[0] = magic;
  head[1] = version;
  head[2] = tokens;
  return packed(head) + ids;
}

/// `places`: where each sequence begins, in bytes.
std::string megatron(std::uint8_t type, const std::vector<std::int32_t>& lengths,
                     const std::vector<std::int64_t>& places) {
  return std::string("MMIDIDX\0\0", 9) + packed<std::uint64_t>({1}) + packed<std::uint8_t>({type}) +
         packed<std::uint64_t>({lengths.size(), 2}) + packed(lengths) + packed(places) +
         packed<std::int64_t>({0, static_cast<std::int64_t>(lengths.size())});
}

class TokenFiles : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& content) {
    const auto path = (directory_.path() / name).string();
    write_file(path, content);
    return path;
  }
  /// All ids; the first of none is -1.
  static std::vector<std::int64_t> ids_of(const std::string& tokens) {
    const auto data = TrainingData::open({"", tokens, 0}, 1);
    EXPECT_TRUE(data) << data.error().text();
    if (!data) return {-1};
    std::vector<std::int64_t> ids(data->tokens().size());
    data->tokens().copy(0, ids);
    return ids;
  }
  static std::string why_refused(const std::string& tokens, std::uint64_t tokens_min = 1) {
    const auto data = TrainingData::open({"", tokens, 0}, tokens_min);
    if (data) return "not refused";
    EXPECT_EQ(data.error().code, std::errc::invalid_argument) << "trying again gives the same";
    EXPECT_THAT(data.error().doing, HasSubstr(directory_.text())) << "the file is named";
    return data.error().doing;
  }

  static inline TemporaryDirectory directory_;
};

const std::vector<std::uint16_t> kIds{7, 50256, 0, 65535};

TEST_F(TokenFiles, LlmcsAreToldByTheirHead) {
  EXPECT_THAT(ids_of(put("a.bin", llmc(20240520, 1, 4, packed(kIds)))),
              ElementsAre(7, 50256, 0, 65535));
  EXPECT_THAT(ids_of(put("b.bin", llmc(20240801, 7, 2, packed<std::uint32_t>({128'000, 3})))),
              ElementsAre(128'000, 3));
}

TEST_F(TokenFiles, WithoutAHeadTheyAreNanoGpts) {
  EXPECT_THAT(ids_of(put("c.bin", packed(kIds))), ElementsAre(7, 50256, 0, 65535));
}

TEST_F(TokenFiles, MegatronsAreNamedByTheirIndex) {
  put("d.bin", packed(kIds));
  EXPECT_THAT(ids_of(put("d.idx", megatron(8, {3, 1}, {0, 6}))), ElementsAre(7, 50256, 0, 65535));
  put("e.bin", packed<std::int32_t>({100'000, 2, 1}));
  EXPECT_THAT(ids_of(put("e.idx", megatron(4, {1, 0, 2}, {0, 4, 4}))), ElementsAre(100'000, 2, 1));
  put("f.bin", "az");
  EXPECT_THAT(ids_of(put("f.idx", megatron(1, {2}, {0}))), ElementsAre('a', 'z'));
}

TEST_F(TokenFiles, WhatIsCutOffOrOfAnotherKindIsRefusedInWords) {
  EXPECT_THAT(why_refused(put("g.bin", "")), HasSubstr("it has 0 token ids, and one sequence"));
  EXPECT_THAT(why_refused(put("h.bin", packed(kIds)), 5), HasSubstr("it has 4 token ids"));
  EXPECT_THAT(why_refused(put("i.bin", "In the beginning")), HasSubstr("not refused"));
  EXPECT_THAT(why_refused(put("i.bin", "In the beginning.")), HasSubstr("it has 17 bytes"));
  const auto whole = llmc(20240520, 1, 4, packed(kIds));
  EXPECT_THAT(why_refused(put("j.bin", whole.substr(0, whole.size() - 1))),
              HasSubstr("promises 4 ids, 3 and a piece are there"));
  EXPECT_THAT(why_refused(put("j.bin", whole + "xx")), HasSubstr("promises 4 ids, 5 are there"));
  EXPECT_THAT(why_refused(put("j.bin", whole.substr(0, 100))), HasSubstr("ends within its head"));
  EXPECT_THAT(why_refused(put("k.bin", llmc(20240520, 2, 0, ""))), HasSubstr("version 2"));
  EXPECT_THAT(why_refused(put("k.bin", llmc(20240520, 1, -1, ""))), HasSubstr("promises -1 ids"));
  EXPECT_THAT(why_refused(put("l.bin", llmc(20240522, 1, 1, ""))), HasSubstr("multiple-choice"));
  EXPECT_THAT(why_refused(put("m.bin", "\x93NUMPY\x01\0......")), HasSubstr("tofile"));
  EXPECT_THAT(why_refused(directory_.text()), HasSubstr("no regular file"));
}

TEST_F(TokenFiles, AnIndexThatDoesNotFitItsFileIsRefused) {
  put("n.bin", packed(kIds));
  EXPECT_THAT(why_refused(put("n.idx", megatron(8, {3, 2}, {0, 6}))), HasSubstr("knows of more"));
  EXPECT_THAT(why_refused(put("n.idx", megatron(8, {3}, {0}))),
              HasSubstr("knows of 6 bytes of ids, 8 are there"));
  EXPECT_THAT(why_refused(put("n.idx", megatron(8, {1, 3}, {6, 0}))), HasSubstr("in a row"));
  EXPECT_THAT(why_refused(put("n.idx", megatron(7, {4}, {0}))), HasSubstr("type 7"));
  EXPECT_THAT(why_refused(put("n.idx", "nonsense")), HasSubstr("not one of Megatron's"));
  const auto whole = megatron(8, {3, 1}, {0, 6});
  for (std::size_t bytes = 9; bytes < 34 + 24; ++bytes) {
    EXPECT_THAT(why_refused(put("n.idx", whole.substr(0, bytes))), HasSubstr("the index is cut"));
  }
}

TEST_F(TokenFiles, BareIdsBesideAnIndexAreNotGuessedAt) {
  put("o.idx", megatron(8, {4}, {0}));
  EXPECT_THAT(why_refused(put("o.bin", packed(kIds))), HasSubstr("o.idx lies beside it; name"));
}

TEST_F(TokenFiles, AMissingFileIsNoMistakeOfItsContent) {
  const auto data = TrainingData::open({"", "/nowhere/x.bin", 0}, 1);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().code, std::errc::no_such_file_or_directory);
  EXPECT_THAT(data.error().text(), HasSubstr("must be on every host"));
}

TEST_F(TokenFiles, AnIdOutsideTheVocabularyIsFoundWithItsPlace) {
  std::vector<std::uint16_t> ids(300'000, 5);
  ids[270'001] = 50'257;
  const auto data = TrainingData::open({"", put("p.bin", packed(ids)), 0}, 1).value();
  EXPECT_TRUE(data.check_ids(50'258, 0, ids.size()));
  EXPECT_TRUE(data.check_ids(50'257, 0, 270'001)) << "only the part that was asked for";
  const auto outside = data.check_ids(50'257, 100'000, 200'000);
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().doing, HasSubstr("id 50257 at place 270001 of 300000 is outside the "
                                               "vocabulary of 50257"));
  EXPECT_EQ(outside.error().code, std::errc::invalid_argument);
}

TEST_F(TokenFiles, AFileLargerThanFourGibibytesIsReadToItsEnd) {
  const auto path = put("huge.bin", "");
  constexpr std::uint64_t kTokens = 3ull << 30;
  std::filesystem::resize_file(path, 2 * kTokens);  // a hole, no room on the disk
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(2 * kTokens - 2)
      .write("\x01\x02", 2);
  const auto data = TrainingData::open({"", path, 0}, 1).value();
  ASSERT_EQ(data.tokens().size(), kTokens);
  EXPECT_FALSE(data.check_ids(0x0201, kTokens - 10, 10));
  TrainerSettings settings;
  settings.data.validation_per_mille = 10;
  const DataOrder order(settings, kTokens);
  std::uint64_t most = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {
    most = std::max(most, order.first_token(step, 0, 0));
  }
  EXPECT_GT(most, kTokens / 2);
  EXPECT_LT(most + settings.model.context, kTokens);
  EXPECT_GT(order.first_validation_token(order.validation_batches() - 1, 7), kTokens / 10 * 9);
}

TEST_F(TokenFiles, AWrittenFileReadsBackAndSaysTheVocabularyItNeeds) {
  const auto out = (directory_.path() / "out.bin").string();
  const auto text = put("text.txt", "abc\xff");
  EXPECT_THAT(write_tokens({text, "", 0}, out).value(), HasSubstr("vocabulary must be 256"));
  EXPECT_EQ(read_file(out), llmc(20240520, 1, 4, packed<std::uint16_t>({'a', 'b', 'c', 255})));
  EXPECT_THAT(ids_of(out), ElementsAre('a', 'b', 'c', 255));
  std::vector<std::int32_t> many(600'000);
  std::iota(many.begin(), many.end(), 0);
  put("q.bin", packed(many));
  const auto index = put("q.idx", megatron(4, {600'000}, {0}));
  EXPECT_THAT(write_tokens({"", index, 0}, out).value(), HasSubstr("vocabulary must be 600000"));
  const auto ids = ids_of(out);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), many.begin(), many.end()));
  EXPECT_FALSE(write_tokens({"", index, 0}, "/nowhere/out.bin"));
}

}  // namespace
}  // namespace dlaunch::trainer
