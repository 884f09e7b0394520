#include "study/sweep/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::array kKinds = {"bench", "coll", "calibrate"};

/// Factors that change together; level i of one goes with level i of the others.
struct Axis {
  std::vector<std::string> names;
  std::vector<std::vector<std::string>> levels;  ///< [level][name]
  std::size_t center = 0;
};

const Factor& factor_of(const StudySpec& spec, const std::string& name) {
  const auto found =
      std::ranges::find_if(spec.factors, [&](const Factor& f) { return f.name == name; });
  check(found != spec.factors.end(), "a group of factors that exist");
  return *found;
}

Axis axis_of(const StudySpec& spec, const std::vector<std::string>& names) {
  Axis axis{names, {}, 0};
  const std::size_t n = factor_of(spec, names[0]).levels.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::string> levels;
    for (const std::string& each : names) levels.push_back(factor_of(spec, each).levels.at(i));
    axis.levels.push_back(std::move(levels));
  }
  for (std::size_t i = n; i-- > 0;) {  // the first of those that fit `around`
    const bool fits = std::ranges::all_of(names, [&](const std::string& each) {
      const auto around = spec.design.around.find(each);
      return around == spec.design.around.end() ||
             around->second == factor_of(spec, each).levels[i];
    });
    if (fits) axis.center = i;
  }
  return axis;
}

std::vector<Axis> axes_of(const StudySpec& spec) {
  std::vector<Axis> axes;
  std::set<std::string> done;
  for (const Factor& factor : spec.factors) {
    if (done.contains(factor.name)) continue;
    std::vector<std::string> names = {factor.name};
    for (const auto& group : spec.design.paired) {
      if (std::ranges::find(group, factor.name) != group.end()) names = group;
    }
    done.insert(names.begin(), names.end());
    axes.push_back(axis_of(spec, names));
  }
  return axes;
}

class Expansion {
 public:
  explicit Expansion(const StudySpec& spec) : spec_(spec), axes_(axes_of(spec)) {}

  std::vector<Factors> all() {
    std::vector<std::size_t> every(axes_.size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = i;
    if (spec_.design.kind == Design::Kind::crossed) {
      cross(every);
      return std::move(found_);
    }
    cross({});
    for (const std::size_t axis : every) cross({axis});
    for (const auto& group : spec_.design.full) cross(axes_named(group));
    return std::move(found_);
  }

 private:
  std::vector<std::size_t> axes_named(const std::vector<std::string>& names) const {
    std::set<std::size_t> found;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      for (const std::string& each : axes_[i].names) {
        if (std::ranges::find(names, each) != names.end()) found.insert(i);
      }
    }
    return {found.begin(), found.end()};
  }

  // All levels of these axes, the last one quickest; the others at their centers.
  void cross(const std::vector<std::size_t>& moving) {
    std::vector<std::size_t> at;
    for (const Axis& axis : axes_) at.push_back(axis.center);
    for (const std::size_t axis : moving) at[axis] = 0;
    while (true) {
      add(at);
      std::size_t i = moving.size();
      while (i > 0 && ++at[moving[i - 1]] == axes_[moving[i - 1]].levels.size()) {
        at[moving[--i]] = 0;
      }
      if (i == 0) return;
    }
  }

  void add(const std::vector<std::size_t>& at) {
    Factors factors;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      for (std::size_t j = 0; j < axes_[i].names.size(); ++j) {
        factors[axes_[i].names[j]] = axes_[i].levels[at[i]][j];
      }
    }
    if (seen_.insert(factors).second) found_.push_back(std::move(factors));
  }

  const StudySpec& spec_;
  std::vector<Axis> axes_;
  std::set<Factors> seen_;
  std::vector<Factors> found_;
};

// What is left of a combination of one rank, where nothing is summed.
Factors without_communication(Factors factors) {
  std::erase_if(factors, [](const auto& entry) { return of_communication(entry.first); });
  return factors;
}

// How ranks meet, of cells of several ranks: what a measurement of collectives hangs on.
std::vector<Factors> meetings(const std::vector<Factors>& cells,
                              const std::vector<std::string>& names) {
  std::vector<Factors> found;
  for (const Factors& cell : cells) {
    if (ranks_of(cell) < 2) continue;
    Factors meeting;
    for (const std::string& each : names) {
      if (cell.contains(each)) meeting[each] = cell.at(each);
    }
    if (std::ranges::find(found, meeting) == found.end()) found.push_back(std::move(meeting));
  }
  return found;
}

// The better of two ways to meet is that with more nodes and ranks, unless ranks would share cores.
bool better_calibration(const Factors& one, const Factors& other, int cores) {
  const auto crowded = [&](const Factors& f) {
    return ranks_of(f) * std::max(1, threads_of(f)) > cores;
  };
  if (crowded(one) != crowded(other)) return crowded(other);
  const auto size = [](const Factors& f) { return std::pair(nodes_of(f), ranks_of(f)); };
  return crowded(one) ? size(one) < size(other) : size(one) > size(other);
}

// One: what an emulated network adds is known by its formula (predict --emulate).
std::vector<Factors> calibrations(const std::vector<Factors>& cells, int cores) {
  const auto all = meetings(cells, {"ranks", "nodes", "threads", "dtype"});
  const auto best = std::ranges::max_element(all, [&](const Factors& one, const Factors& other) {
    return better_calibration(other, one, cores);
  });
  return best == all.end() ? std::vector<Factors>{} : std::vector{*best};
}

void skip_doubled(std::vector<Cell>& cells) {
  std::map<Factors, std::string> alone;
  for (Cell& cell : cells) {
    if (cell.kind != CellKind::bench || ranks_of(cell.factors) > 1) continue;
    const auto [first, fresh] = alone.emplace(without_communication(cell.factors), cell.id);
    if (!fresh) cell.skipped = "the same as " + first->second + ": one rank makes no sums";
  }
}

}  // namespace

std::string name(CellKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

CellKind parse_cell_kind(const std::string& word) {
  const auto found = std::ranges::find(kKinds, word);
  if (found == kKinds.end()) {
    fail(ExitCode::model_files, {.what = "kind of a cell",
                                 .expected = fmt::format("{}", fmt::join(kKinds, ", ")),
                                 .found = word});
  }
  return static_cast<CellKind>(found - kKinds.begin());
}

bool of_communication(const std::string& factor) {
  constexpr std::array kNames = {"nodes", "allreduce", "wire", "overlap", "comm", "emulate"};
  return std::ranges::find(kNames, factor) != kNames.end();
}

std::vector<Cell> make_cells(const StudySpec& spec, int cores) {
  const std::vector<Factors> all = Expansion(spec).all();
  std::vector<Cell> cells;
  const auto add = [&](CellKind kind, const std::vector<Factors>& combinations) {
    for (const Factors& factors : combinations) {
      Cell cell;
      cell.id = fmt::format("c{:03}", cells.size() + 1);
      cell.kind = kind;
      cell.factors = factors;
      cells.push_back(std::move(cell));
    }
  };
  if (spec.calibrate) add(CellKind::calibrate, calibrations(all, cores));
  add(CellKind::bench, all);
  if (spec.coll) add(CellKind::coll, meetings(all, {"ranks", "nodes", "emulate"}));
  skip_doubled(cells);
  return cells;
}

}  // namespace shardlm
