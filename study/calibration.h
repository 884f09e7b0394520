// What `shardlm calibrate` measured, and what an all-reduce costs by it: never by fitting
// all-reduces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/algorithm_table.h"
#include "study/collective_time.h"
#include "study/link_class.h"

namespace shardlm {

inline constexpr const char* kCalibrationFormat = "shardlm calibration 1";

/// How fast memory is read, by how much of it: a rank alone, and each of all at the same time.
struct ReadRate {
  std::uint64_t bytes = 0;
  double alone_gb_per_s = 0, all_gb_per_s = 0;
};

/// The kernel of the matrices: so many rows through matrices of so many bytes together.
struct MatmulRate {
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;
  double alone_gflop_per_s = 0;
  double all_gflop_per_s = 0;  ///< the slowest of all ranks at the same time
};

/// What a prediction must know of one rank.
struct ComputeFacts {
  int threads = 1;
  int ranks_at_once = 1;  ///< of one machine: what `all_…` is of
  std::string dtype = "f32";
  std::vector<ReadRate> read = {};
  std::vector<MatmulRate> matmul = {};
  double norm_row_s = 0;                  ///< residual and LayerNorm: a row
  double norm_s_per_element = 0;          ///< and its elements
  double op_s = 0;                        ///< an op that has nothing to do
  std::optional<double> meetings_s = {};  ///< a plan out to all ranks, their replies back
  std::uint64_t node_memory_bytes = 0;    ///< 0: not known
};

struct Calibration {
  std::string source = {};  ///< "calibration FILE", "link 10gbe (documented preset)"
  std::string hash = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  int ranks = 1, nodes = 1;
  std::string emulate = {};  ///< the network; empty: a real one
  std::vector<LinkClass> classes = {};
  std::vector<GammaClass> gamma = {};
  std::optional<ComputeFacts> compute = {};

  const LinkClass* find(const std::string& name) const;
};

/// The class that an algorithm's messages go over between ranks laid out so: "emulated" where the
/// calibration has it, else "shm", "node" or, over several machines, "network". None: not measured.
const LinkClass* link_of(const Calibration& calibration, Algorithm algorithm,
                         const GroupShape& shape);

/// Seconds of an all-reduce of `bytes` (its elements as the wire has them). Over shared memory a
/// message is cut as ShmTeam cuts it; of two levels, comm/two_level_reducer's: shared memory, then
/// `between_nodes` over the machine's one link, then shared memory. None: a class is missing, ranks
/// of several machines share no memory, or the algorithm is the MPI library's own.
std::optional<double> predicted_all_reduce_s(const Calibration& calibration,
                                             const AllReduceChoice& choice, const GroupShape& shape,
                                             std::size_t bytes);
/// The same, ranks spread evenly.
std::optional<double> predicted_all_reduce_s(const Calibration& calibration, Algorithm algorithm,
                                             int ranks, int nodes, std::size_t bytes);
/// How often alpha is in it: what a microsecond more of a round costs.
std::optional<double> rounds_in_all_reduce(const AllReduceChoice& choice, const GroupShape& shape,
                                           std::size_t bytes);

/// Ranks spread evenly over machines.
GroupShape even_shape(int ranks, int nodes);

/// The file's text.
std::string calibration_text(const Calibration& calibration);
/// Error(ExitCode::usage) naming the file and what is wrong there.
Calibration read_calibration(const std::filesystem::path& path);

}  // namespace shardlm
