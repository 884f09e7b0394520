#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/thread_ranks.h"

namespace shardlm {
namespace {

struct Outcome {
  bool thrown = false, quiet = false;
  ExitCode code = ExitCode::ok;
  std::string text;
};

// What each rank gets when rank r reports failures[r] (none: empty text).
std::vector<Outcome> outcomes(const std::vector<std::pair<ExitCode, std::string>>& failures) {
  std::vector<Outcome> all(failures.size());
  run_ranks(static_cast<int>(failures.size()), [&](int rank, Communicator& comm, Backend&) {
    const auto& [code, text] = failures[static_cast<std::size_t>(rank)];
    Outcome& mine = all[static_cast<std::size_t>(rank)];
    try {
      agree(comm, text.empty() ? std::nullopt : std::optional<Error>(Error(code, text)));
    } catch (const AgreedFailure& failure) {
      mine = {true, failure.quiet(), failure.code(), failure.what()};
    }
  });
  return all;
}

constexpr std::pair<ExitCode, const char*> kFine{ExitCode::ok, ""};

TEST(Agreement, NothingHappensIfAllAreWell) {
  for (const Outcome& o : outcomes({kFine, kFine, kFine})) EXPECT_FALSE(o.thrown);
}

TEST(Agreement, OneFailureEndsAllRanksAlike) {
  const auto all = outcomes({kFine, kFine, {ExitCode::model_files, "wte.weight is cut"}, kFine});
  for (std::size_t r = 0; r < all.size(); ++r) {
    EXPECT_TRUE(all[r].thrown);
    EXPECT_EQ(all[r].code, ExitCode::model_files);
    EXPECT_EQ(all[r].text, "rank 2: wte.weight is cut");
    EXPECT_EQ(all[r].quiet, r != 0);
  }
}

TEST(Agreement, EqualMessagesOfSomeRanksAreSaidOnce) {
  const auto all = outcomes({{ExitCode::resources, "out of memory"},
                             {ExitCode::model_files, "no file"},
                             kFine,
                             {ExitCode::resources, "out of memory"}});
  EXPECT_EQ(all[0].text, "ranks 0, 3: out of memory\nrank 1: no file");
  EXPECT_EQ(all[2].code, ExitCode::resources);  // of the lowest rank
}

TEST(Agreement, AMessageOfAllRanksNamesNone) {
  const std::pair<ExitCode, std::string> same{ExitCode::usage, "no such folder"};
  for (const std::size_t ranks : {1, 3}) {
    const auto all = outcomes({ranks, same});
    EXPECT_EQ(all[0].text, "no such folder");
    EXPECT_EQ(all[0].code, ExitCode::usage);
    EXPECT_FALSE(all[0].quiet);
  }
}

TEST(Agreement, TheRootAloneSpeaksForAllWithoutRanks) {
  std::array<std::string, 3> texts;
  std::array<bool, 3> quiet{};
  run_ranks(3, [&](int rank, Communicator& comm, Backend&) {
    agree_with_root(comm, std::nullopt);  // nobody has failed
    try {
      agree_with_root(comm, Error(ExitCode::usage, "prompt 0: too long"));
    } catch (const AgreedFailure& failure) {
      texts[static_cast<std::size_t>(rank)] = failure.what();
      quiet[static_cast<std::size_t>(rank)] = failure.quiet();
      EXPECT_EQ(failure.code(), ExitCode::usage);
    }
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "prompt 0: too long");
  EXPECT_EQ(quiet, (std::array<bool, 3>{false, true, true}));
}

}  // namespace
}  // namespace shardlm
