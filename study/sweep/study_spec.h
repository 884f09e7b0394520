// A study as its author wrote it: which factors at which levels, how often, and how jobs are
// started. docs/studies.md explains the words; launcher/study_file.h reads them from YAML.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardlm {

/// The level of each factor, as text: {"ranks": "2", "allreduce": "ring"}.
using Factors = std::map<std::string, std::string>;

struct Factor {
  std::string name;
  std::vector<std::string> levels;  ///< in the order of the file; none is twice there
};

struct Design {
  enum class Kind { crossed, one_at_a_time };
  Kind kind = Kind::crossed;
  /// Of one-at-a-time: the level of a factor while another one changes; else its first.
  Factors around = {};
  std::vector<std::vector<std::string>> full = {};    ///< of one-at-a-time: crossed all the same
  std::vector<std::vector<std::string>> paired = {};  ///< change together: level 1 with level 1 …
};

/// Cells of `bench coll`, one for each way in which the study's ranks meet.
struct CollSpec {
  std::vector<std::int64_t> bytes = {};
  std::vector<std::string> algorithms = {};
  std::optional<double> max_seconds = {};  ///< of a size
};

struct RepeatSpec {
  int launches = 3;  ///< of each cell, each a job of its own
  std::optional<std::int64_t> repetitions = {}, warmup = {}, most = {};  ///< of a launch
  std::optional<double> ci_width = {};     ///< of the median, at which a launch stops repeating
  std::optional<double> max_seconds = {};  ///< of a test
  bool random = true;                      ///< else as written
  std::uint64_t seed = 1;
};

struct HostSlots {
  std::string name;
  int slots = 0;  ///< 0: any number of ranks
  bool operator==(const HostSlots&) const = default;
};

struct LaunchSpec {
  enum class By { mpirun, srun, command };
  By by = By::mpirun;
  std::string command = {};               ///< of By::command
  std::vector<std::string> options = {};  ///< of mpirun or srun, behind ours
  std::vector<HostSlots> hosts = {};      ///< none: this machine, or what srun was given
  std::map<std::string, std::string> env = {};
  double timeout_s = 300;
  std::optional<int> slots = {};  ///< most ranks of a cell
  std::string program = {};       ///< empty: the running one
};

struct StudySpec {
  std::string name;
  std::string model = {}, shape = {};  ///< a folder, or made-up weights
  std::vector<Factor> factors = {};    ///< `ranks` among them
  Design design = {};
  std::optional<CollSpec> coll = {};
  bool calibrate = false, predict = false;
  std::optional<double> calibrate_seconds = {};  ///< of each class of links
  RepeatSpec repeat = {};
  LaunchSpec launch = {};
  std::optional<double> budget_minutes = {};
  std::string output_dir = {};  ///< empty: study-NAME in the working folder
  bool report = true;           ///< write report.html when the last launch has ended
};

/// The names that a factor can have, in the order in which people read them.
const std::vector<std::string>& factor_names();

/// The level of a factor, or what holds where the study does not say.
std::string level_of(const Factors& factors, const std::string& name, const std::string& fallback);
int ranks_of(const Factors& factors);
int nodes_of(const Factors& factors);
int threads_of(const Factors& factors);  ///< 0: as many as the rank's cores

/// "ranks=2 allreduce=ring", in the order of factor_names().
std::string factors_text(const Factors& factors);

}  // namespace shardlm
