// One combination of levels, and the job that measures it.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "study/sweep/study_spec.h"

namespace shardlm {

enum class CellKind { bench, coll, calibrate };
std::string name(CellKind kind);
/// Error(model_files) for another word, which can only stand in a plan that was changed by hand.
CellKind parse_cell_kind(const std::string& name);

struct Cell {
  std::string id = {};  ///< "c003"
  CellKind kind = CellKind::bench;
  Factors factors = {};
  std::vector<std::string> command = {};  ///< mpirun …, word by word
  std::string skipped = {};               ///< why it is not run; empty: it is
  double guess_s = 0;                     ///< of one launch

  bool runs() const { return skipped.empty(); }
};

/// The cells of a study in the order of its file: calibrations, those of `bench`, those of `bench
/// coll`. Ids and factors only. A combination that equals an earlier one where they differ, since
/// one rank makes no sums, is skipped. A network is calibrated on the most ranks that the study has
/// on it, as long as `cores` are enough for them.
std::vector<Cell> make_cells(const StudySpec& spec, int cores = std::numeric_limits<int>::max());

/// True if the factor says how ranks meet, so that it means nothing on one rank.
bool of_communication(const std::string& factor);

}  // namespace shardlm
