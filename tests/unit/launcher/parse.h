// What the tests of options share: a command line in, the options or the error text out.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/options.h"

namespace shardlm {

inline Options parse(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"shardlm"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data());
}

template <typename Command>
Command parse_as(const std::vector<std::string>& words) {
  return std::get<Command>(parse(words).command);
}

/// The text of the usage error that the words must end in.
inline std::string usage_error(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// generate with a model and what else is given.
inline std::vector<std::string> generate_words(std::vector<std::string> more) {
  std::vector<std::string> words = {"generate", "--model", "m"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The same, and a prompt.
inline GenerateOptions generate(std::vector<std::string> more) {
  more.insert(more.begin(), {"--prompt", "x"});
  return parse_as<GenerateOptions>(generate_words(std::move(more)));
}

inline std::string generate_error(std::vector<std::string> more) {
  more.insert(more.begin(), {"--prompt", "x"});
  return usage_error(generate_words(std::move(more)));
}

/// A file with this content in a folder of the running test.
inline std::string write_file(const std::string& name, const std::string& content) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      (std::string("shardlm_") + test->test_suite_name() + "." + test->name());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / name, std::ios::binary) << content;
  return (folder / name).string();
}

}  // namespace shardlm
