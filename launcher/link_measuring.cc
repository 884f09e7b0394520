#include "launcher/link_measuring.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/error.h"
#include "comm/mpi_reducer.h"
#include "study/piecewise_fit.h"
#include "study/ping_pong.h"
#include "study/statistics.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::load, -1};
constexpr std::size_t kMostPairs = 3;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

LinkPoint point_of(SizeTimes& times) {
  LinkPoint point;
  point.bytes = times.bytes;
  point.n = static_cast<std::int64_t>(times.seconds.size());
  point.low_s = quantile(times.seconds, 0.05);
  point.median_s = median(times.seconds);
  return point;
}

template <class T>
std::vector<std::vector<T>> gathered(Communicator& control, const std::vector<T>& mine) {
  std::vector<std::vector<std::byte>> all;
  control.gather(kSite, std::as_bytes(std::span(mine)), all, 0);
  std::vector<std::vector<T>> values;
  for (const auto& bytes : all) {
    values.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.back().data(), bytes.data(), bytes.size());
  }
  return values;
}

// Of several pairs the median of each figure.
std::vector<LinkPoint> merged(const std::vector<std::vector<LinkPoint>>& of_pairs) {
  std::vector<LinkPoint> points;
  for (std::size_t i = 0; !of_pairs.empty() && i < of_pairs[0].size(); ++i) {
    std::vector<double> low, middle;
    LinkPoint point = of_pairs[0][i];
    point.n = 0;
    for (const auto& pair : of_pairs) {
      low.push_back(pair[i].low_s);
      middle.push_back(pair[i].median_s);
      point.n += pair[i].n;
    }
    point.low_s = median(low);
    point.median_s = median(middle);
    points.push_back(point);
  }
  return points;
}

void fit(LinkClass& link) {
  std::vector<TimedMessage> times;
  for (const LinkPoint& p : link.points) times.push_back({p.bytes, std::max(p.low_s, 1e-10)});
  const PiecewiseFit fitted = fit_piecewise(times);
  link.segments = fitted.segments;
  link.fit_error = fitted.error;
}

class Links {
 public:
  Links(const Job& job, const LinkMeasuring& how)
      : job_(job),
        how_(how),
        deadlines_{.collective_s = how.timeout_s, .load_s = how.timeout_s},
        machines_(ranks_by_machine(job.world.nodes())),
        messages_(make_mpi_messages(job.world, deadlines_)) {}

  std::vector<LinkClass> all() {
    const auto inside = pairs_inside(machines_), between = pairs_between(machines_);
    std::vector<LinkClass> classes;
    if (!inside.empty()) classes.push_back(memory_class(inside));
    if (!inside.empty())
      classes.push_back(message_class("node", inside, [this](int r) { return same_machine(r); }));
    if (!between.empty())
      classes.push_back(
          message_class("network", between, [this](int r) { return !same_machine(r); }));
    if (how_.emulation.delays()) classes.push_back(emulated_class(inside, between));
    return classes;
  }

 private:
  using MakePath = std::function<std::unique_ptr<Path>(const RankPair&)>;

  int me() const { return job_.world.rank(); }
  bool same_machine(int r) const { return job_.world.nodes()[index(r)] == job_.world.nodes()[0]; }

  LinkClass memory_class(const std::vector<RankPair>& pairs) {
    LinkClass link = class_of("shm", "shm", pairs, [&](const RankPair& pair) {
      return over_memory(pair, [this](Path& path) { return times_over(path); });
    });
    link.per_message_s = flag_s(link);
    return link;
  }

  LinkClass message_class(const std::string& name, const std::vector<RankPair>& pairs,
                          const std::function<bool(int)>& is_peer) {
    LinkClass link = class_of(name, "mpi", pairs, [&](const RankPair& pair) {
      return over_messages(pair, [this](Path& path) { return times_over(path); });
    });
    std::vector<int> peers;
    for (int r = 1; r < job_.world.size(); ++r) {
      if (is_peer(r)) peers.push_back(r);
    }
    if (peers.empty()) return link;
    const bool takes_part = me() == 0 || std::find(peers.begin(), peers.end(), me()) != peers.end();
    if (takes_part) link.per_message_s = posting_s(*messages_, 0, peers);
    job_.control.barrier(kSite);
    return link;
  }

  LinkClass emulated_class(const std::vector<RankPair>& inside,
                           const std::vector<RankPair>& between) {
    const std::unique_ptr<NetworkClock> clock = make_network_clock(job_.world.oversubscribed());
    const auto slowed = [&](Path& real) {
      struct Borrowed final : Path {
        explicit Borrowed(Path& to) : to_(to) {}
        void send(std::span<const std::byte> from) override { to_.send(from); }
        void receive(std::span<std::byte> to) override { to_.receive(to); }
        std::size_t most_bytes() const override { return to_.most_bytes(); }
        Path& to_;
      };
      const auto path =
          make_emulated_path(std::make_unique<Borrowed>(real), how_.emulation, *clock);
      return times_over(*path, ShmTeam::kSlotBytes);
    };
    const bool memory = machines_.size() == 1;
    LinkClass link = class_of(
        "emulated", memory ? "shm" : "mpi", memory ? inside : between, [&](const RankPair& pair) {
          return memory ? over_memory(pair, slowed) : over_messages(pair, slowed);
        });
    link.per_message_s = 0;
    return link;
  }

  // The points of each pair in turn, while the other ranks wait.
  LinkClass class_of(const std::string& name, const std::string& transport,
                     const std::vector<RankPair>& pairs,
                     const std::function<std::vector<LinkPoint>(const RankPair&)>& measure) {
    n_pairs_ = pairs.size();
    std::vector<std::vector<LinkPoint>> of_pairs;
    std::set<int> ranks;
    for (const RankPair& pair : pairs) {
      const auto by_rank = gathered(job_.control, measure(pair));
      job_.control.barrier(kSite);
      shared_ = {};  // ranks free it together, and would wait for each other without sleeping
      if (!by_rank.empty()) of_pairs.push_back(by_rank[index(pair.first)]);
      ranks.insert({pair.first, pair.second});
    }
    LinkClass link;
    link.name = name;
    link.transport = transport;
    link.pairs = static_cast<int>(pairs.size());
    link.hosts = hosts_of(ranks);
    link.alpha_holds_one_message = true;
    link.points = merged(of_pairs);
    if (me() == 0) fit(link);
    return link;
  }

  std::vector<LinkPoint> times_over(Path& path, std::size_t most = std::size_t{4} << 20) {
    const auto sizes = ping_pong_sizes(std::min(most, path.most_bytes()));
    auto times = ping_pong(path, first_, sizes, how_.seconds / static_cast<double>(n_pairs_));
    std::vector<LinkPoint> points;
    for (SizeTimes& t : times) points.push_back(point_of(t));
    if (!first_) points.clear();
    return points;
  }

  std::vector<LinkPoint> over_messages(const RankPair& pair,
                                       const std::function<std::vector<LinkPoint>(Path&)>& f) {
    if (me() != pair.first && me() != pair.second) return {};
    first_ = me() == pair.first;
    const auto path = make_message_path(*messages_, first_ ? pair.second : pair.first);
    return f(*path);
  }

  // Every rank of a machine takes part in sharing its memory.
  std::vector<LinkPoint> over_memory(const RankPair& pair,
                                     const std::function<std::vector<LinkPoint>(Path&)>& f) {
    shared_ = job_.world.share_memory(ShmTeam::segment_bytes());
    const ShmSegments& shared = shared_;
    if (me() != pair.first && me() != pair.second) return {};
    first_ = me() == pair.first;
    const auto segment = [&](int rank) { return shared.base[place_of(rank)]; };
    const ShmSegments two{
        {segment(pair.first), segment(pair.second)}, shared.bytes_each, shared.owner};
    ShmTeam team(first_ ? 0 : 1, two, options({pair.first, pair.second}));
    const auto path = make_memory_path(team);
    return f(*path);
  }

  // What each further rank's flag adds to a phase; two ranks cannot say.
  std::optional<double> flag_s(const LinkClass& pair) {
    const ShmSegments shared = job_.world.share_memory(ShmTeam::segment_bytes());
    ShmTeam team(job_.world.node_rank(), shared, options({}));
    const int local = team.size();
    const double phase = local > 1 ? phase_s(team) : 0;
    job_.control.barrier(kSite);
    if (local < 3 || pair.segments.empty() || job_.world.oversubscribed()) return std::nullopt;
    return std::max(0.0, phase - pair.segments.front().alpha_s) / (local - 2);
  }

  ShmOptions options(std::vector<int> job_ranks) const {
    ShmOptions o;
    o.deadlines = deadlines_;
    o.oversubscribed = job_.world.oversubscribed();
    o.job_ranks = std::move(job_ranks);
    return o;
  }

  std::size_t place_of(int rank) const {
    for (const auto& ranks : machines_) {
      const auto it = std::find(ranks.begin(), ranks.end(), rank);
      if (it != ranks.end()) return static_cast<std::size_t>(it - ranks.begin());
    }
    return 0;
  }

  std::vector<std::string> hosts_of(const std::set<int>& ranks) {
    const std::string& mine = job_.world.host_name();
    const std::vector<char> text(mine.begin(), mine.end());
    std::vector<std::string> hosts;
    const auto all = gathered(job_.control, text);
    for (const int r : ranks) {
      if (all.empty()) break;
      const std::string host(all[index(r)].begin(), all[index(r)].end());
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    return hosts;
  }

  const Job& job_;
  LinkMeasuring how_;
  Deadlines deadlines_;
  std::vector<std::vector<int>> machines_;
  std::unique_ptr<Messages> messages_;
  bool first_ = false;
  std::size_t n_pairs_ = 1;
  ShmSegments shared_;  // of the pair at hand
};

}  // namespace

std::vector<std::vector<int>> ranks_by_machine(const std::vector<int>& node_of) {
  std::map<int, std::vector<int>> by_first;
  for (int r = 0; std::cmp_less(r, node_of.size()); ++r) by_first[node_of[index(r)]].push_back(r);
  std::vector<std::vector<int>> machines;
  for (auto& [first, ranks] : by_first) machines.push_back(std::move(ranks));
  return machines;
}

std::vector<RankPair> pairs_inside(const std::vector<std::vector<int>>& machines) {
  std::vector<RankPair> pairs;
  for (const auto& ranks : machines) {
    if (ranks.size() < 2) continue;
    for (const int second : {ranks[1], ranks.back()}) {
      const RankPair pair{ranks.front(), second};
      if (pairs.size() < kMostPairs && std::find(pairs.begin(), pairs.end(), pair) == pairs.end())
        pairs.push_back(pair);
    }
  }
  return pairs;
}

std::vector<RankPair> pairs_between(const std::vector<std::vector<int>>& machines) {
  std::vector<RankPair> pairs;
  const auto add = [&](std::size_t a, std::size_t b) {
    const RankPair pair{machines[a].front(), machines[b].front()};
    if (a != b && std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) pairs.push_back(pair);
  };
  if (machines.size() < 2) return pairs;
  add(0, 1);
  add(0, machines.size() - 1);
  add(1, machines.size() - 1);
  return pairs;
}

std::vector<LinkClass> measure_links(const Job& job, const LinkMeasuring& how) {
  if (job.world.size() == 1) return {};
  return Links(job, how).all();
}

}  // namespace shardlm
