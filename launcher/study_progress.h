// How far a study is: a bar on a terminal, a line a job elsewhere.
#pragma once

#include <string>

namespace shardlm {

class StudyProgress {
 public:
  /// `total`: jobs of the study, `done` of which an earlier run has finished.
  StudyProgress(std::size_t done, std::size_t total);
  ~StudyProgress();
  StudyProgress(const StudyProgress&) = delete;
  StudyProgress& operator=(const StudyProgress&) = delete;

  void start(std::string what);   ///< a job: "c003 ranks=2 launch 1"
  void tick(double remaining_s);  ///< while it runs; `remaining_s`: of all
  void finish(const std::string& how, double remaining_s);
  void drop(std::size_t jobs) { total_ -= jobs; }  ///< that will not be run

 private:
  void clear();

  bool terminal_;
  bool shown_ = false;
  std::size_t done_, total_;
  std::string what_;
  double start_s_, drawn_s_ = 0;
};

/// "[######..............] 12/40", `width` characters between the brackets.
std::string bar_text(std::size_t done, std::size_t total, std::size_t width);

}  // namespace shardlm
