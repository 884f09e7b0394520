#include "launcher/backend_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "comm/algorithm_table.h"
#include "comm/emulation.h"

namespace shardlm {
namespace {

DType dtype_of(DTypeChoice choice) {
  constexpr std::array types = {DType::f32, DType::bf16, DType::f16, DType::q8, DType::q4};
  return types.at(static_cast<std::size_t>(choice));
}

DType dtype_of(KvDTypeChoice choice, DType weights) {
  constexpr std::array types = {DType::f32, DType::bf16, DType::f16, DType::i8};
  if (choice != KvDTypeChoice::automatic) return types.at(static_cast<std::size_t>(choice) - 1);
  return is_quantised(weights) ? DType::f16 : weights;
}

// True if a rule fits every all-reduce, so that none is left to the defaults.
bool for_all(const AlgorithmTable& table) {
  return std::any_of(table.rules().begin(), table.rules().end(), [](const AllReduceRule& rule) {
    return !rule.site && !rule.phase && rule.up_to_bytes == AllReduceRule{}.up_to_bytes;
  });
}

// "--comm ipc (it sums on GPUs)" for each that does not fit.
std::vector<std::string> misfits_of_cpu(const EngineOptions& o) {
  std::vector<std::string> misfits;
  if (o.comm == CommChoice::nccl || o.comm == CommChoice::ipc || o.comm == CommChoice::staged) {
    misfits.push_back(fmt::format("--comm {} (it sums on GPUs)", comm_name(o.comm)));
  }
  return misfits;
}

std::vector<std::string> misfits_of_cuda(const EngineOptions& o) {
  constexpr const char* kFloat = "it computes in f32, bf16 or f16";
  std::vector<std::string> misfits;
  const Precision precision = precision_of(o.dtype, o.kv_dtype);
  if (is_quantised(precision.weights)) {
    misfits.push_back(fmt::format("--dtype {} ({})", dtype_name(precision.weights), kFloat));
  }
  if (o.communication.overlap != OverlapChoice::none) {
    misfits.push_back(fmt::format("--overlap {} (its sums are in the stream of its work)",
                                  overlap_name(o.communication.overlap)));
  }
  if (o.communication.allreduce != "auto") {
    misfits.push_back(fmt::format("--allreduce {} (choose with --comm nccl, ipc or staged)",
                                  o.communication.allreduce));
  }
  if (o.communication.wire != WireFormat::f32) {
    misfits.push_back(fmt::format("--wire {} (it sums in f32)", name(o.communication.wire)));
  }
  if (const std::string& network = o.communication.emulate;
      !network.empty() && parse_emulation(network).delays()) {
    misfits.push_back(fmt::format("--emulate {} (its messages are emulated on the CPU)", network));
  }
  if (precision.kv == DType::i8) misfits.push_back(fmt::format("--kv-dtype int8 ({})", kFloat));
  if (o.reduction == ReductionChoice::exact) {
    misfits.emplace_back("--reduction exact (exact sums are made on the CPU)");
  }
  if (o.compute == ComputeChoice::none) {
    misfits.emplace_back("--compute none (its messages are the CPU's)");
  }
  if (o.comm == CommChoice::shared_memory || o.comm == CommChoice::mpi) {
    misfits.push_back(fmt::format("--comm {} (it sums on the host; staged is its like for GPUs)",
                                  comm_name(o.comm)));
  }
  return misfits;
}

}  // namespace

std::string backend_name(BackendKind kind) { return kind == BackendKind::cuda ? "cuda" : "cpu"; }

std::string backend_name(BackendChoice choice) {
  constexpr std::array names = {"auto", "cpu", "cuda"};
  return names.at(static_cast<std::size_t>(choice));
}

std::string comm_name(CommChoice choice) {
  constexpr std::array names = {"auto", "shm", "mpi", "nccl", "ipc", "staged", "none"};
  return names.at(static_cast<std::size_t>(choice));
}

std::string overlap_name(OverlapChoice choice) {
  constexpr std::array names = {"none", "poll", "thread"};
  return names.at(static_cast<std::size_t>(choice));
}

std::string reduction_name(ReductionChoice choice) {
  return choice == ReductionChoice::exact ? "exact" : "ordered";
}

std::string compute_name(ComputeChoice choice) {
  return choice == ComputeChoice::none ? "none" : "normal";
}

Reduction reduction_of(ReductionChoice choice) {
  return choice == ReductionChoice::exact ? Reduction::exact : Reduction::ordered;
}

std::vector<std::string> result_warnings(const EngineOptions& options) {
  std::vector<std::string> warnings;
  if (options.comm == CommChoice::none) {
    warnings.emplace_back(
        "--comm none: ranks do not sum their parts; the output is meaningless, its speed an upper "
        "bound");
  }
  if (options.compute == ComputeChoice::none) {
    warnings.emplace_back(
        "--compute none: nothing is computed; times are those of the messages alone");
  }
  if (!options.communication.emulate.empty()) {
    warnings.push_back(
        fmt::format("--emulate {}: all times are emulated", options.communication.emulate));
  }
  return warnings;
}

std::string dtype_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::i8:
    case DType::q8:
      return "int8";
    case DType::q4:
      return "int4";
    default:
      return "f32";
  }
}

Precision precision_of(DTypeChoice dtype, KvDTypeChoice kv_dtype) {
  const DType type = dtype_of(dtype);
  return {type, is_quantised(type) ? DType::f32 : type, dtype_of(kv_dtype, type)};
}

std::string precision_text(const Precision& precision) {
  const std::string text = dtype_name(precision.weights);
  if (precision.kv == precision.weights) return text;
  return fmt::format("{}, keys and values {}", text, dtype_name(precision.kv));
}

void check_fit(const EngineOptions& options, BackendKind kind, const std::string& because) {
  const bool cuda = kind == BackendKind::cuda;
  const std::vector<std::string> misfits =
      cuda ? misfits_of_cuda(options) : misfits_of_cpu(options);
  if (misfits.empty()) return;
  const std::string taken = because.empty() ? "" : fmt::format(" (taken because: {})", because);
  refuse(
      ExitCode::usage,
      {.what = fmt::format("the {} back end{} cannot follow {}", cuda ? "CUDA" : "CPU", taken,
                           fmt::join(misfits, " and ")),
       .remedy = cuda ? "use --dtype and --kv-dtype f32, bf16 or f16 and --comm staged, nccl, ipc "
                        "or auto, or --backend cpu"
                      : "leave it out, or use --backend cuda where there are GPUs"});
}

std::vector<std::string> notes_without_effect(const EngineOptions& options, BackendKind kind) {
  if (kind == BackendKind::cuda) return {};
  const CommunicationOptions& o = options.communication;
  const bool rules = o.allreduce != "auto" && o.allreduce != "table";
  std::vector<std::string> notes;
  if (rules && !o.table.empty()) notes.emplace_back("--allreduce-table has no effect beside rules");
  if (rules && o.wire != WireFormat::f32 && for_all(parse_algorithm_table(o.allreduce))) {
    notes.push_back(fmt::format("--wire has no effect beside --allreduce {0}: write {0}:{1}",
                                o.allreduce, name(o.wire)));
  }
  if (o.check_collectives && o.overlap != OverlapChoice::none)
    notes.emplace_back("--overlap has no effect beside --check-collectives");
  const auto note = [&](const char* flag) {
    notes.push_back(fmt::format("{} has no effect on the CPU back end", flag));
  };
  if (options.graphs) note(*options.graphs ? "--graphs" : "--no-graphs");
  if (options.allow_shared_gpu) note("--allow-shared-gpu");
  return notes;
}

}  // namespace shardlm
