#include "study/sweep/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace shardlm {
namespace {

constexpr std::size_t kMostOutput = std::size_t{256} << 20, kMostMessages = 2000;
constexpr int kTick_ms = 100;
constexpr double kDrain_s = 0.5;  // for what is still in the pipes when the process has ended

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      fail(ExitCode::resources, {.what = std::string("no pipe: ") + std::strerror(errno)});
    }
    read = ends[0];
    write = ends[1];
    ::fcntl(read, F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

// The words of `environ` with some of them replaced, and pointers to them.
struct Words {
  std::vector<std::string> words;
  std::vector<char*> pointers;
  explicit Words(std::vector<std::string> all) : words(std::move(all)) {
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
  }
};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word = *entry;
    if (!more.contains(word.substr(0, word.find('=')))) all.push_back(word);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

pid_t spawn(const ProcessSpec& spec, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  Words command(spec.command), environment(environment_with(spec.env));
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, command.pointers[0], &actions, &attributes,
                                   command.pointers.data(), environment.pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    fail(ExitCode::usage, {.what = std::string("cannot be started: ") + std::strerror(error),
                           .where = spec.command[0]});
  }
  return pid;
}

// The parent of a process; 0 if it is gone.
pid_t parent_of(const std::filesystem::path& proc) {
  std::ifstream file(proc / "stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos || text.size() < end + 4) return 0;
  return static_cast<pid_t>(std::strtol(text.c_str() + end + 4, nullptr, 10));
}

// Kills what the job has left behind, until nothing of it is a child of ours.
void kill_the_rest(pid_t group) {
  ::kill(-group, SIGKILL);
  for (int round = 0; round < 50; ++round) {
    int children = 0;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (parent_of(entry.path()) != ::getpid()) continue;
      ::kill(static_cast<pid_t>(std::stoi(name)), SIGKILL);
      ++children;
    }
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (children == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Watch {
 public:
  Watch(const ProcessSpec& spec, const std::function<bool(double)>& tick)
      : spec_(spec), tick_(tick) {}

  ProcessEnd run(const std::function<void(int)>& started) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    start_s_ = now_s();
    pid_ = spawn(spec_, out_, err_);
    Pipe::close_end(out_.write);
    Pipe::close_end(err_.write);
    started(pid_);
    while (!reap()) {
      read_pipes(kTick_ms);
      end_if_due();
    }
    end_.wall_s = now_s() - start_s_;
    drain();
    kill_the_rest(pid_);
    return std::move(end_);
  }

 private:
  bool reap() {
    int status = 0;
    const pid_t done = ::waitpid(pid_, &status, WNOHANG);
    if (done == 0 || (done < 0 && errno == EINTR)) return false;
    if (WIFSIGNALED(status)) {
      end_.signal = WTERMSIG(status);
    } else {
      end_.exit_code = WEXITSTATUS(status);
    }
    return true;
  }

  void end_if_due() {
    const double t = now_s() - start_s_;
    const bool stop = tick_(t);
    if (term_s_ < 0) {
      end_.stopped = stop;
      end_.timed_out = !stop && t > spec_.timeout_s;
      if (!end_.stopped && !end_.timed_out) return;
      ::kill(-pid_, SIGTERM);
      term_s_ = t;
    } else if (t - term_s_ > spec_.grace_s) {
      ::kill(-pid_, SIGKILL);
    }
  }

  // True while at least one pipe has its other end open.
  bool read_pipes(int wait_ms) {
    std::array<pollfd, 2> polled = {pollfd{out_.read, POLLIN, 0}, pollfd{err_.read, POLLIN, 0}};
    if (out_.read < 0 && err_.read < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      return false;
    }
    ::poll(polled.data(), polled.size(), wait_ms);
    read_into(out_, end_.output, false);
    read_into(err_, end_.messages, true);
    return out_.read >= 0 || err_.read >= 0;
  }

  static void read_into(Pipe& pipe, std::string& text, bool last) {
    std::array<char, 65536> bytes;
    while (pipe.read >= 0) {
      const ssize_t n = ::read(pipe.read, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;  // nothing there now
      if (n == 0) return Pipe::close_end(pipe.read);
      if (last || text.size() < kMostOutput) text.append(bytes.data(), static_cast<std::size_t>(n));
      if (last && text.size() > kMostMessages) text.erase(0, text.size() - kMostMessages);
    }
  }

  void drain() {
    const double until_s = now_s() + kDrain_s;
    while ((out_.read >= 0 || err_.read >= 0) && now_s() < until_s && read_pipes(10)) {
    }
  }

  const ProcessSpec& spec_;
  const std::function<bool(double)>& tick_;
  Pipe out_, err_;
  pid_t pid_ = -1;
  double start_s_ = 0, term_s_ = -1;
  ProcessEnd end_;
};

}  // namespace

ProcessEnd run_process(const ProcessSpec& spec, const std::function<bool(double)>& tick,
                       const std::function<void(int)>& started) {
  return Watch(spec, tick).run(started);
}

std::optional<std::uint64_t> process_start_time(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::size_t at = text.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 2; field < 22; ++field) {  // the 22nd is the start time
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return std::nullopt;
  }
  return std::strtoull(text.c_str() + at, nullptr, 10);
}

}  // namespace shardlm
