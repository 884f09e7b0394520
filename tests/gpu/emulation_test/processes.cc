#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>

#include "tests/gpu/emulation_test/bench.h"

#if defined(SHARDLM_EMU_TSAN)
// Children start threads of their own, which ThreadSanitizer otherwise refuses after a fork; and no
// second of sleep at each exit, of which these tests have many.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0:atexit_sleep_ms=10"; }
#endif

namespace shardlm::bench_test {
namespace {

struct Child {
  pid_t process = 0;
  int pipe = 0;
};

Child start(int rank, const std::function<std::string(int)>& part) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process != 0) {
    close(ends[1]);
    return {process, ends[0]};
  }
  alarm(30);  // a test that fails may leave the other process waiting for ever
  std::string text;
  try {
    text = part(rank);
  } catch (const std::exception& e) {
    text = e.what();
  }
  const bool told = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
  _exit(told ? 0 : 1);
}

}  // namespace

std::vector<std::string> in_processes(int n, const std::function<std::string(int)>& part) {
  std::vector<Child> children;
  for (int rank = 0; rank < n; ++rank) children.push_back(start(rank, part));
  std::vector<std::string> texts;
  for (const Child& child : children) {
    std::string text;
    std::array<char, 512> bytes{};
    for (ssize_t got; (got = read(child.pipe, bytes.data(), bytes.size())) > 0;)
      text.append(bytes.data(), static_cast<std::size_t>(got));
    close(child.pipe);
    int status = 0;
    waitpid(child.process, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) text += "(the process died)";
    texts.push_back(text);
  }
  return texts;
}

}  // namespace shardlm::bench_test
