// What the user asked for: the command line joined with the YAML file of --config. The tables in
// launcher/options_table.cc are the one place that lists the options; docs/cli.md explains them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/algorithm.h"
#include "study/sweep/study_spec.h"

namespace shardlm {

enum class Verbosity { quiet, normal, verbose };

/// Options of every sub-command.
struct SharedOptions {
  std::string config = {};  ///< the YAML file; empty: none
  bool json = false;        ///< one JSON object on standard output and nothing else there
  Verbosity verbosity = Verbosity::normal;
};

enum class CommChoice { automatic, shared_memory, mpi, nccl, ipc, staged, none };
enum class ReductionChoice { ordered, exact };  ///< as Reduction (parallel/context.h)
enum class ComputeChoice { normal, none };      ///< none: messages without arithmetic
enum class BackendChoice { automatic, cpu, cuda };
enum class DTypeChoice { f32, bf16, f16, int8, int4 };
enum class KvDTypeChoice { automatic, f32, bf16, f16, int8 };  ///< see precision_of()

enum class OverlapChoice { none, poll, thread };

/// How ranks meet: beside CommChoice, of ranks that compute on CPUs.
struct CommunicationOptions {
  std::string allreduce = "auto";  ///< auto, table, or the rules of comm/algorithm_table.h
  std::string table = {};          ///< file of shardlm tune; empty: where tune puts it
  WireFormat wire = WireFormat::f32;
  OverlapChoice overlap = OverlapChoice::none;
  std::string emulate = {};        ///< comm/emulated_network.h; empty: no emulation
  bool check_collectives = false;  ///< compare every call over the ranks before it
};

/// What is told of the collectives of a run.
struct ObserveOptions {
  bool report = false;         ///< at the end, on standard error
  bool per_layer = false;      ///< of the report
  std::string trace = {};      ///< file; empty: none
  bool live = false;           ///< a line a step
  std::int64_t log = 1 << 16;  ///< calls that a rank remembers; 0: it records none
};

/// Options of the sub-commands that run a model (generate, score, dump), and of doctor.
struct EngineOptions {
  std::string model = {};  ///< a folder
  int threads = 0;         ///< compute threads of a rank; 0: as many as its cores
  CommChoice comm = CommChoice::automatic;
  double timeout_s = 60;             ///< how long a rank waits for another one in a step
  double load_timeout_s = 600;       ///< the same while the model is loaded
  std::int64_t prefill_chunk = 512;  ///< at most so many prompt tokens in a step
  BackendChoice backend = BackendChoice::automatic;
  DTypeChoice dtype = DTypeChoice::f32;  ///< of the weights
  KvDTypeChoice kv_dtype = KvDTypeChoice::automatic;
  ReductionChoice reduction = ReductionChoice::ordered;
  ComputeChoice compute = ComputeChoice::normal;  ///< none: with a made-up shape only
  std::optional<bool> graphs = {};  ///< record and replay decoding steps on a GPU; none: yes
  bool allow_shared_gpu = false;
  CommunicationOptions communication = {};
  ObserveOptions observe = {};
};

/// Where one sequence's prompt, or a text to score, comes from.
struct PromptSource {
  enum class Kind { text, ids, file, standard_input };
  Kind kind = Kind::text;
  std::string text = {};               ///< the bytes of a text, the path of a file
  std::vector<std::int32_t> ids = {};  ///< of Kind::ids; none is negative
};

struct GenerateOptions {
  SharedOptions shared = {};
  EngineOptions engine = {};
  std::vector<PromptSource> prompts = {};  ///< one sequence each, in the order given; never empty
  std::int64_t max_tokens = 128;
  // Sampling: only the types are checked here, the ranges are the sampler's to check.
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::optional<std::uint64_t> seed = {};  ///< none: to be drawn and printed
  std::vector<std::string> stops = {};     ///< none is empty
  bool ignore_eos = false;
  std::optional<std::int64_t> logprobs = {};  ///< how many best ids beside each; none: no logprobs
  std::optional<bool> stream = {};            ///< none: on a terminal only
  bool no_special = false;
  std::int64_t max_batch = 64;  ///< sequences in progress at once
};

struct ScoreOptions {
  SharedOptions shared = {};
  EngineOptions engine = {};
  PromptSource text = {};
  bool bos = false;
  std::int64_t window = 0;  ///< 0: the model's context
  std::int64_t stride = 0;  ///< 0: the window
  bool no_special = false;
};

struct TokenizeOptions {
  SharedOptions shared = {};
  std::string model = {};
  std::optional<std::string> text = {};  ///< none: standard input
  bool no_special = false;
  bool json_lines = false;
};

struct DetokenizeOptions {
  SharedOptions shared = {};
  std::string model = {};
  std::optional<std::vector<std::int32_t>> ids = {};  ///< none: standard input
  bool json_lines = false;
};

struct PlanOptions {
  SharedOptions shared = {};
  std::string model = {};
  std::int64_t ranks = 0;
  std::int64_t prompt_tokens = 128;  ///< length that the list of a prompt's collectives is for
  DTypeChoice dtype = DTypeChoice::f32;
  KvDTypeChoice kv_dtype = KvDTypeChoice::automatic;
  ReductionChoice reduction = ReductionChoice::ordered;
};

struct DoctorOptions {
  SharedOptions shared = {};
  EngineOptions engine = {};   ///< of the job that is looked at; its model may be empty
  std::int64_t kv_tokens = 0;  ///< tokens in the KV cache; 0: the model's context
};

struct DumpOptions {
  SharedOptions shared = {};
  EngineOptions engine = {};
  std::vector<std::int32_t> prompt_ids = {};  ///< of the one sequence; empty only beside diff
  std::string out = {};                       ///< empty: no file
  bool stats = false;
  std::optional<std::pair<std::string, std::string>> diff = {};  ///< two files to compare instead
  double tolerance = 1e-4;  ///< of diff: times the largest magnitude of the tensor in file A
};

/// What links and computing cost here.
struct CalibrateOptions {
  SharedOptions shared = {};
  std::string out = {};  ///< empty: in the cache folder, by the environment's hash
  double seconds = 1;    ///< of each class of links, and of computing
  int threads = 0;       ///< as EngineOptions::threads
  DTypeChoice dtype = DTypeChoice::f32;
  std::string emulate = {};  ///< links as over this network
  double timeout_s = 60;
};

enum class PhaseChoice { decode, prefill };

struct PredictOptions {
  SharedOptions shared = {};
  std::string model = {}, shape = {};  ///< one of the two
  DTypeChoice dtype = DTypeChoice::f32;
  KvDTypeChoice kv_dtype = KvDTypeChoice::automatic;
  PhaseChoice phase = PhaseChoice::decode;
  std::int64_t prompt = 128;  ///< of a prefill; of decoding: tokens that stand before
  std::int64_t batch = 1;
  std::int64_t prefill_chunk = 512;
  std::vector<std::int64_t> ranks = {1, 2, 4, 8, 16};
  std::optional<std::int64_t> nodes = {}, ranks_per_node = {};
  std::string calibration = {}, link = {};  ///< files, names; at least one of them
  std::string emulate = {};
  std::string from = {};  ///< results of bench; empty: none
  std::optional<double> read_gb_per_s = {}, gflop_per_s = {}, memory_gb = {};
  std::string allreduce = "auto";  ///< auto: the quickest by the model
};

enum class BenchFormat { table, csv, json, jsonl, md };  ///< md: another name of table

struct BenchOptions {
  SharedOptions shared = {};
  EngineOptions engine = {};  ///< its dtype and threads are those of the lists below, one by one
  std::string shape = {};     ///< in the place of engine.model: weights made up
  // Lists, crossed with each other.
  std::vector<std::int64_t> prompt = {128};   ///< tokens of a prefill; 0: none is measured
  std::vector<std::int64_t> generate = {64};  ///< decoding steps; 0: none are measured
  std::vector<std::int64_t> batch = {1};      ///< sequences at once
  std::vector<DTypeChoice> dtypes = {DTypeChoice::f32};
  std::vector<int> threads = {0};
  std::vector<std::string> allreduces = {};  ///< as engine.communication.allreduce; empty: that one
  std::int64_t repetitions = 5;              ///< at least
  std::int64_t most = 200;                   ///< at most
  double max_seconds = 10;                   ///< of a test, after which no repetition begins
  double ci_width = 0.02;                    ///< enough repetitions, as a share of the median
  std::int64_t warmup = 1;                   ///< repetitions before those that count, at least
  BenchFormat format = BenchFormat::table;
};

enum class CollMode { isolated, back_to_back };  ///< a barrier before each call, or none
enum class CollBuffers { warm, cold };           ///< the same memory each call, or another

/// Of `bench coll`.
struct CollOptions {
  SharedOptions shared = {};
  std::vector<std::string> ops = {"all_reduce"};
  std::vector<std::int64_t> bytes = {64, 1024, 3072, 6144, 16384, 65536, 393216, 1048576};
  std::vector<std::string> algorithms = {};  ///< of all_reduce; empty: all that the ranks can make
  std::vector<CollMode> modes = {CollMode::isolated};
  CollBuffers buffers = CollBuffers::warm;
  std::int64_t least = 200, most = 20000;  ///< calls of each algorithm and size
  double max_seconds = 5;                  ///< of each size, all algorithms together
  double ci_width = 0.02;
  std::string calibration = {};  ///< file of shardlm calibrate; empty: a fit to this run
  std::string emulate = {};      ///< as of the other commands
  double timeout_s = 60;         ///< how long a rank waits for another one
  BenchFormat format = BenchFormat::table;
};

struct TuneOptions {
  SharedOptions shared = {};
  std::string out = {};  ///< empty: where `--allreduce auto` looks
  /// Of messages, bytes; rounded down to whole floats.
  std::vector<std::int64_t> bytes = {64,    512,    3072,   6144,    16384,
                                     65536, 131072, 393216, 1048576, 4194304};
  double seconds = 1;     ///< for each size
  double timeout_s = 60;  ///< how long a rank waits for another one
};

/// The part that the sub-commands of study share.
struct StudyTarget {
  std::string path = {};               ///< the study's YAML file, or its folder
  std::string out = {};                ///< folder (of report: the file); empty: as the study says
  std::optional<double> minutes = {};  ///< in the place of the study's budget
  std::optional<LaunchSpec::By> by = {};
};
struct StudyPlanOptions {
  SharedOptions shared = {};
  StudyTarget study = {};
};
struct StudyRunOptions {
  SharedOptions shared = {};
  StudyTarget study = {};
  bool stop_on_failure = false;
};
struct StudyResumeOptions {
  SharedOptions shared = {};
  StudyTarget study = {};
  bool stop_on_failure = false;
};
struct StudyReportOptions {
  SharedOptions shared = {};
  StudyTarget study = {};
};
struct StudyCompareOptions {
  SharedOptions shared = {};
  std::vector<std::string> folders = {};
};

enum class LaunchFile { slurm, hostfile, rankfile };

struct LaunchOptions {
  SharedOptions shared = {};
  std::string path = {};  ///< the study's YAML file
  std::optional<LaunchFile> print = {};
};

struct VersionOptions {
  SharedOptions shared = {};
};

/// Help was asked for: print the text to standard output and end with exit code 0.
struct HelpText {
  std::string text;
};

struct Options {
  std::variant<HelpText, GenerateOptions, ScoreOptions, TokenizeOptions, DetokenizeOptions,
               PlanOptions, DumpOptions, DoctorOptions, BenchOptions, CollOptions, TuneOptions,
               CalibrateOptions, PredictOptions, StudyPlanOptions, StudyRunOptions,
               StudyResumeOptions, StudyReportOptions, StudyCompareOptions, LaunchOptions,
               VersionOptions>
      command;
  /// What a person should know about how the options were read (keys of the configuration file
  /// that this sub-command has no use for); one line each, to be logged as information.
  std::vector<std::string> notes;
};

/// The shared part of any sub-command; the defaults for help.
SharedOptions shared_options(const Options& options);

/// Anything unknown, doubled, missing, or of the wrong type, on the command line or in the file of
/// --config, is an Error(ExitCode::usage).
Options parse_options(int argc, const char* const* argv);

}  // namespace shardlm
