#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "launcher/commands.h"
#include "launcher/output.h"
#include "launcher/prompts.h"
#include "launcher/session.h"

namespace shardlm {
namespace {

struct Stats {
  double mean = 0, variance = 0;
  float min = INFINITY, max = -INFINITY;
};

Stats statistics(std::span<const float> values) {
  Stats s;
  for (const float x : values) {
    s.mean += x;
    s.min = std::min(s.min, x);
    s.max = std::max(s.max, x);
  }
  s.mean /= static_cast<double>(values.size());
  for (const float x : values) s.variance += (x - s.mean) * (x - s.mean);
  s.variance /= static_cast<double>(values.size());
  return s;
}

// One line a tensor: name, shape, statistics, first values.
void write_stats(const ActivationDump& dump) {
  for (const std::string& name : dump.names()) {
    const Activation2d& t = dump.at(name);
    const Stats s = statistics(t.values);
    std::string line =
        fmt::format("{:<20} [{}, {}] mean {:.6g} var {:.6g} min {:.6g} max {:.6g} first", name,
                    t.rows, t.cols, s.mean, s.variance, s.min, s.max);
    const std::size_t n_first = std::min<std::size_t>(4, t.values.size());
    for (std::size_t i = 0; i < n_first; ++i) line += fmt::format(" {:.6g}", t.values[i]);
    std::cout << line << '\n';
  }
}

nlohmann::json stats_json(const ActivationDump& dump) {
  nlohmann::json list = nlohmann::json::array();
  for (const std::string& name : dump.names()) {
    const Activation2d& t = dump.at(name);
    const Stats s = statistics(t.values);
    const std::vector<float> first(
        t.values.begin(), t.values.begin() + std::min<std::ptrdiff_t>(4, std::ssize(t.values)));
    list.push_back({{"name", name},
                    {"shape", {t.rows, t.cols}},
                    {"mean", s.mean},
                    {"variance", s.variance},
                    {"min", s.min},
                    {"max", s.max},
                    {"first", first}});
  }
  return {{"tensors", list}};
}

void write_file(const ActivationDump& dump, const std::string& path) {
  std::vector<OutTensor> tensors;
  for (const std::string& name : dump.names()) {
    const Activation2d& t = dump.at(name);
    tensors.push_back({name, {t.rows, t.cols}, t.values});
  }
  write_safetensors(path, tensors);
}

// One forward pass over the prompt (in chunks if it is longer than --prefill-chunk), all logits.
void run_passes(Coordinator& coordinator, const DumpOptions& o,
                const std::vector<std::int32_t>& ids) {
  const auto n = static_cast<std::int64_t>(ids.size());
  StepPlan plan;
  plan.sequences.resize(1);
  SequencePlan& s = plan.sequences[0];
  for (std::int64_t b = 0; b * Session::kBlockTokens < n; ++b)
    s.blocks.push_back(static_cast<std::int32_t>(b));
  for (std::int64_t begin = 0; begin < n; begin += o.engine.prefill_chunk) {
    const std::int64_t end = std::min(begin + o.engine.prefill_chunk, n);
    s.start = begin;
    s.ids.assign(ids.begin() + begin, ids.begin() + end);
    plan.queries.clear();
    for (std::int64_t row = 0; row < end - begin; ++row) {
      plan.queries.push_back({.row = static_cast<std::int32_t>(row), .query = {}, .penalties = {}});
    }
    coordinator.run(plan);
  }
}

/// The largest difference of one tensor of two files, beside the magnitude that it is judged by.
struct Difference {
  double largest = 0, scale = 0;
  std::int64_t at = 0;
};

Difference compare(const HostTensor& a, const HostTensor& b) {
  std::vector<float> x(static_cast<std::size_t>(a.elements())), y(x.size());
  a.read(0, x);
  b.read(0, y);
  Difference d;
  for (std::size_t i = 0; i < x.size(); ++i) {
    d.scale = std::max(d.scale, std::abs(static_cast<double>(x[i])));
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    const double gap = same ? 0 : std::abs(static_cast<double>(x[i]) - y[i]);
    if (gap > d.largest || std::isnan(gap)) {
      d.largest = std::isnan(gap) ? INFINITY : gap;
      d.at = static_cast<std::int64_t>(i);
    }
    if (std::isinf(d.largest)) break;
  }
  return d;
}

// What differs first, in file order of A; an empty text if nothing does.
std::string first_difference(const SafetensorsFile& a, const SafetensorsFile& b, double tolerance) {
  for (const HostTensor& t : a.tensors()) {
    const auto& others = b.tensors();
    const auto other = std::find_if(others.begin(), others.end(),
                                    [&](const HostTensor& o) { return o.name == t.name; });
    if (other == others.end()) return fmt::format("{}: only in the first file", t.name);
    if (other->shape != t.shape) {
      return fmt::format("{}: shape {} against {}", t.name, shape_text(t.shape),
                         shape_text(other->shape));
    }
    const Difference d = compare(t, *other);
    if (d.largest > tolerance * d.scale) {
      return fmt::format(
          "{}: element {} differs by {:.6g}, {:.3g} of the tensor's largest magnitude {:.6g} "
          "(tolerance {:g})",
          t.name, d.at, d.largest, d.largest / d.scale, d.scale, tolerance);
    }
  }
  for (const HostTensor& t : b.tensors()) {
    const auto& others = a.tensors();
    if (std::none_of(others.begin(), others.end(),
                     [&](const HostTensor& o) { return o.name == t.name; })) {
      return fmt::format("{}: only in the second file", t.name);
    }
  }
  return {};
}

}  // namespace

int run_dump(const DumpOptions& options, const Job& job) {
  Session session(job, options.engine, /*dump_activations=*/true);
  std::vector<std::int32_t> ids;
  session.load([&](Session& s) {
    s.warn_of_rounding();
    const PromptSource source{
        .kind = PromptSource::Kind::ids, .text = {}, .ids = options.prompt_ids};
    ids = prompt_ids(s, source, false, "--prompt-ids");
    const auto n = static_cast<std::int64_t>(ids.size());
    const std::int64_t rows = std::min(n, options.engine.prefill_chunk);
    return Demand{.n_blocks = (n + Session::kBlockTokens - 1) / Session::kBlockTokens,
                  .rows = rows,
                  .logit_rows = rows};
  });
  return session.run([&](Coordinator& coordinator) {
    run_passes(coordinator, options, ids);
    if (!options.out.empty()) write_file(*session.dump(), options.out);
    if (options.shared.json) {
      std::cout << stats_json(*session.dump()).dump() << '\n';
    } else if (options.stats) {
      write_stats(*session.dump());
    }
    finish_output(std::cout);
  });
}

int run_dump_diff(const DumpOptions& options, std::ostream& out) {
  const SafetensorsFile a = SafetensorsFile::open(options.diff->first);
  const SafetensorsFile b = SafetensorsFile::open(options.diff->second);
  const double tolerance = options.tolerance;
  const std::string difference = first_difference(a, b, tolerance);
  if (options.shared.json) {
    out << nlohmann::json({{"equal", difference.empty()}, {"first_difference", difference}}).dump()
        << '\n';
  } else {
    out << (difference.empty()
                ? fmt::format("no tensor differs beyond {:g} of its scale", tolerance)
                : difference)
        << '\n';
  }
  return difference.empty() ? 0 : 1;
}

}  // namespace shardlm
