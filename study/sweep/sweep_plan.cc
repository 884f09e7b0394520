#include "study/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "io/json.h"

namespace shardlm {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json given(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <typename Value>
std::optional<Value> given_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

Json repeat_json(const RepeatSpec& r) {
  return {{"launches", r.launches},
          {"repetitions", given(r.repetitions)},
          {"warmup", given(r.warmup)},
          {"most", given(r.most)},
          {"ci_width", given(r.ci_width)},
          {"max_seconds", given(r.max_seconds)},
          {"order", r.random ? "random" : "as-written"},
          {"seed", r.seed}};
}

RepeatSpec repeat_of(const Json& o) {
  RepeatSpec r;
  r.launches = o.at("launches").get<int>();
  r.repetitions = given_of<std::int64_t>(o.at("repetitions"));
  r.warmup = given_of<std::int64_t>(o.at("warmup"));
  r.most = given_of<std::int64_t>(o.at("most"));
  r.ci_width = given_of<double>(o.at("ci_width"));
  r.max_seconds = given_of<double>(o.at("max_seconds"));
  r.random = o.at("order") == "random";
  r.seed = o.at("seed").get<std::uint64_t>();
  return r;
}

Json cell_json(const Cell& cell) {
  return {{"id", cell.id},
          {"factors", cell.factors},
          {"kind", name(cell.kind)},
          {"command", cell.command},
          {"skipped", cell.runs() ? Json(nullptr) : Json(cell.skipped)},
          {"guess_s", cell.guess_s}};
}

Cell cell_of(const Json& o) {
  Cell cell;
  cell.id = o.at("id").get<std::string>();
  cell.kind = parse_cell_kind(o.at("kind").get<std::string>());
  cell.factors = o.at("factors").get<Factors>();
  cell.command = o.at("command").get<std::vector<std::string>>();
  cell.skipped = o.at("skipped").is_null() ? "" : o.at("skipped").get<std::string>();
  cell.guess_s = o.at("guess_s").get<double>();
  return cell;
}

Json object_of(const SweepPlan& plan) {
  Json factors = Json::object(), cells = Json::array(), order = Json::array();
  for (const Factor& factor : plan.factors) factors[factor.name] = factor.levels;
  for (const Cell& cell : plan.cells) cells.push_back(cell_json(cell));
  for (const LaunchRef& ref : plan.order) {
    order.push_back(Json::array({plan.cells.at(ref.cell).id, ref.launch}));
  }
  Json made_by = Json::object();
  for (const auto& [key, value] : plan.made_by) made_by[key] = value;
  return {{"schema", kPlanSchema},
          {"study", plan.study},
          {"method_version", plan.method_version},
          {"seed", plan.repeat.seed},
          {"yaml_hash", plan.yaml_hash},
          {"made_by", std::move(made_by)},
          {"model", plan.model},
          {"shape", plan.shape},
          {"factors", std::move(factors)},
          {"repeat", repeat_json(plan.repeat)},
          {"env", plan.env},
          {"timeout_s", plan.timeout_s},
          {"cores", plan.cores},
          {"predict", plan.predict},
          {"report", plan.report},
          {"budget", {{"minutes", given(plan.budget_minutes)}}},
          {"cells", std::move(cells)},
          {"order", std::move(order)}};
}

std::vector<LaunchRef> order_of(const Json& array, const std::vector<Cell>& cells) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < cells.size(); ++i) places[cells[i].id] = i;
  std::vector<LaunchRef> order;
  for (const Json& entry : array) {
    order.push_back({places.at(entry.at(0).get<std::string>()), entry.at(1).get<int>()});
  }
  return order;
}

SweepPlan plan_of(const Json& o) {
  SweepPlan plan;
  plan.study = o.at("study").get<std::string>();
  plan.method_version = o.at("method_version").get<int>();
  plan.yaml_hash = o.at("yaml_hash").get<std::string>();
  for (const auto& [key, value] : o.at("made_by").items()) {
    plan.made_by.emplace_back(key, value.get<std::string>());
  }
  plan.model = o.at("model").get<std::string>();
  plan.shape = o.at("shape").get<std::string>();
  for (const auto& [key, value] : o.at("factors").items()) {
    plan.factors.push_back({key, value.get<std::vector<std::string>>()});
  }
  plan.repeat = repeat_of(o.at("repeat"));
  plan.env = o.at("env").get<std::map<std::string, std::string>>();
  plan.timeout_s = o.at("timeout_s").get<double>();
  plan.cores = o.at("cores").get<int>();
  plan.predict = o.at("predict").get<bool>();
  plan.report = o.at("report").get<bool>();
  plan.budget_minutes = given_of<double>(o.at("budget").at("minutes"));
  for (const Json& cell : o.at("cells")) plan.cells.push_back(cell_of(cell));
  plan.order = order_of(o.at("order"), plan.cells);
  return plan;
}

std::string object_hash(Json object) {
  object.erase("hash");
  return text_hash(object.dump());
}

}  // namespace

std::string text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

Json plan_json(const SweepPlan& plan) {
  Json object = object_of(plan);
  object["hash"] = object_hash(object);
  return object;
}

SweepPlan plan_from_json(const Json& object, const std::string& where) {
  const auto refuse = [&](const std::string& found) {
    fail(ExitCode::model_files,
         {.expected = fmt::format("a plan as study run writes it (\"{}\")", kPlanSchema),
          .found = found,
          .where = where,
          .remedy = "run the study anew, into another folder"});
  };
  if (!object.is_object() || object.value("schema", Json()) != kPlanSchema) {
    refuse("another format");
  }
  if (object.value("hash", Json()) != object_hash(object)) refuse("one that was changed since");
  try {
    return plan_of(object);
  } catch (const nlohmann::json::exception& error) {
    refuse(error.what());
  } catch (const std::out_of_range&) {
    refuse("an order of cells that do not exist");
  }
  return {};
}

SweepPlan read_plan(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "plan.json";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || !(bytes << file.rdbuf())) {
    fail(ExitCode::usage, {.what = "no plan.json can be read there, so it is no study's folder",
                           .where = folder.string()});
  }
  parse_json(bytes.str(), path.string());  // strict; its objects do not keep their order
  return plan_from_json(Json::parse(bytes.str()), path.string());
}

}  // namespace shardlm
