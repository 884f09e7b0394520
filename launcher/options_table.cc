#include "launcher/options_table.h"

#include "base/error.h"
#include "launcher/bench_options.h"
#include "launcher/options_parts.h"
#include "launcher/predict_options.h"
#include "launcher/study_options.h"

namespace shardlm {
namespace {

OptionSpec no_special_option(bool& target) {
  return switch_option("no-special", "read <|endoftext|> and its like as plain text", target);
}

OptionSpec json_lines_option(std::string help, bool& target) {
  return switch_option("json-lines", std::move(help), target);
}

Table prompt_table(GenerateOptions& o) {
  using Kind = PromptSource::Kind;
  const auto keep = [&o](PromptSource source) { o.prompts.push_back(std::move(source)); };
  const auto prompt = [&](std::string name, std::string help, Kind kind) {
    return grouped("prompt",
                   repeating(source_option(std::move(name), std::move(help), kind, keep)));
  };
  return section(
      "Prompts (each is one sequence; \"-\" alone reads one from standard input)",
      {prompt("prompt", "a text", Kind::text), prompt("prompt-ids", "token ids", Kind::ids),
       bare(BareWords::dash,
            prompt("prompt-file", "a file's bytes; - is standard input", Kind::file)),
       no_special_option(o.no_special)});
}

OptionSpec seed_option(std::optional<std::uint64_t>& target) {
  OptionSpec option = value_option("seed", "N", "of the random draws", ValueKind::number);
  option.default_text = "drawn and printed";
  option.store = [&target](Words words, const std::string& where) {
    target = parse_unsigned(words[0], where);
  };
  return option;
}

Table sampling_table(GenerateOptions& o) {
  return section(
      "Sampling",
      {real_option("temperature", "divides the logits; 0: the likeliest token", o.temperature),
       integer_option("top-k", "keep the k likeliest tokens; 0: all", o.top_k, {}),
       real_option("top-p", "keep the likeliest tokens that sum to p; 1: all", o.top_p),
       real_option("min-p", "drop tokens below p times the likeliest; 0: none", o.min_p),
       real_option("repetition-penalty", "of tokens in prompt or text; 1: none",
                   o.repetition_penalty),
       real_option("presence-penalty", "of tokens in the continuation; 0: none",
                   o.presence_penalty),
       real_option("frequency-penalty", "the same for each time; 0: none", o.frequency_penalty),
       seed_option(o.seed)});
}

OptionSpec stop_option(std::vector<std::string>& target) {
  OptionSpec option =
      value_option("stop", "TEXT", "end a sequence before this text", ValueKind::text);
  option.repeats = true;
  option.store = [&target](Words words, const std::string& where) {
    if (words[0].empty()) {
      fail(ExitCode::usage,
           {.expected = "a text to stop at", .found = "an empty text", .where = where});
    }
    target.push_back(words[0]);
  };
  return option;
}

OptionSpec logprobs_option(std::optional<std::int64_t>& target) {
  OptionSpec option =
      value_option("logprobs", "N", "report log-probabilities, and the N best", ValueKind::number);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_integer(words[0], where, {0, std::numeric_limits<std::int32_t>::max()});
  };
  return option;
}

OptionSpec stream_option(std::optional<bool>& target) {
  return optional_switch("stream", "write text as it comes, or at the end", "on a terminal",
                         target);
}

Table continuation_table(GenerateOptions& o) {
  return section(
      "Continuation",
      {integer_option("max-tokens", "most tokens of a continuation", o.max_tokens, kFromZero),
       stop_option(o.stops),
       switch_option("ignore-eos", "go on after the end-of-text token", o.ignore_eos),
       logprobs_option(o.logprobs), stream_option(o.stream),
       integer_option("max-batch", "most sequences in progress at once", o.max_batch, kFromOne)});
}

CommandTable generate_command(GenerateOptions& o) {
  return command("generate", "continue texts",
                 {engine_table(o.engine), prompt_table(o), continuation_table(o), sampling_table(o),
                  communication_table(o.engine.communication), observe_table(o.engine.observe),
                  shared_table(o.shared)});
}

CommandTable score_command(ScoreOptions& o) {
  using Kind = PromptSource::Kind;
  const auto keep = [&o](PromptSource source) { o.text = std::move(source); };
  return command(
      "score", "perplexity and bits per byte of a text",
      {engine_table(o.engine),
       section(
           "Text",
           {bare(BareWords::dash,
                 grouped("text", source_option("text-file", "a file's bytes; - is standard input",
                                               Kind::file, keep))),
            grouped("text", source_option("prompt-ids", "token ids", Kind::ids, keep)),
            switch_option("bos", "put the end-of-text id before the text", o.bos),
            no_special_option(o.no_special),
            integer_option("window", "tokens of a window; 0: the model's context", o.window,
                           kFromZero),
            integer_option("stride", "from window to window; 0: the window", o.stride, kFromZero)}),
       communication_table(o.engine.communication), observe_table(o.engine.observe),
       shared_table(o.shared)});
}

OptionSpec text_option(std::optional<std::string>& target) {
  OptionSpec option = value_option("text", "TEXT", "the text", ValueKind::text);
  option.default_text = "standard input";
  option.store = [&target](Words words, const std::string&) { target = words[0]; };
  return option;
}

CommandTable tokenize_command(TokenizeOptions& o) {
  return command(
      "tokenize", "text to token ids",
      {section("Text",
               {model_option(o.model), text_option(o.text), no_special_option(o.no_special),
                json_lines_option("a JSON string a line in, its ids a line out", o.json_lines)}),
       shared_table(o.shared)});
}

CommandTable detokenize_command(DetokenizeOptions& o) {
  const auto keep = [&o](const std::vector<std::int32_t>& ids) {
    if (!o.ids) o.ids.emplace();
    o.ids->insert(o.ids->end(), ids.begin(), ids.end());
  };
  return command(
      "detokenize", "token ids to text",
      {section(
           "Ids",
           {model_option(o.model),
            with_default("standard input",
                         bare(BareWords::any,
                              repeating(ids_option(
                                  "ids", "the ids; words without a flag are ids too", keep)))),
            json_lines_option("a JSON array of ids a line in, its text a line out", o.json_lines)}),
       shared_table(o.shared)});
}

CommandTable plan_command(PlanOptions& o) {
  constexpr IntegerRange kRanks{1, 1'000'000};
  return command(
      "plan", "what each rank would hold and send",
      {section("Plan",
               {model_option(o.model),
                with_default("", integer_option("ranks", "number of ranks", o.ranks, kRanks)),
                integer_option("prompt-tokens", "length of the prompt in the plan", o.prompt_tokens,
                               kFromOne),
                dtype_option(o.dtype), kv_dtype_option(o.kv_dtype), reduction_option(o.reduction)}),
       shared_table(o.shared)});
}

OptionSpec diff_option(std::optional<std::pair<std::string, std::string>>& target) {
  OptionSpec option =
      value_option("diff", "A B", "compare two dumped files instead", ValueKind::path);
  option.values = 2;
  option.store = [&target](Words words, const std::string&) { target = {words[0], words[1]}; };
  return option;
}

CommandTable dump_command(DumpOptions& o) {
  const auto keep = [&o](std::vector<std::int32_t> ids) { o.prompt_ids = std::move(ids); };
  return command(
      "dump", "activations of one forward pass",
      {engine_table(o.engine),
       section("Dump", {ids_option("prompt-ids", "token ids of the one sequence", keep),
                        path_option("out", "FILE", "safetensors file to write", o.out),
                        switch_option("stats", "print statistics of each tensor", o.stats),
                        diff_option(o.diff),
                        real_option("tolerance", "of --diff, times the tensor's largest magnitude",
                                    o.tolerance)}),
       communication_table(o.engine.communication), observe_table(o.engine.observe),
       shared_table(o.shared)});
}

CommandTable doctor_command(DoctorOptions& o) {
  return command(
      "doctor", "what this machine offers a job, and what is wrong with it",
      {engine_table(o.engine),
       section("Doctor",
               {integer_option("kv-tokens", "tokens in the KV cache; 0: the model's context",
                               o.kv_tokens, kFromZero)}),
       shared_table(o.shared)});
}

CommandTable tune_command(TuneOptions& o) {
  constexpr IntegerRange kBytes{4, 1 << 30};
  return command(
      "tune", "which all-reduce is the quickest here, for --allreduce auto",
      {section("Tune",
               {path_option("out", "FILE", "the table to write; else where auto looks", o.out),
                integer_list_option("bytes", "sizes of messages", o.bytes, kBytes),
                seconds_option("seconds", "for each size", o.seconds),
                seconds_option("timeout", "how long a rank waits for another one", o.timeout_s)}),
       shared_table(o.shared)});
}

CommandTable version_command(VersionOptions& o) {
  return command("version", "version, build and libraries", {shared_table(o.shared)});
}

}  // namespace

std::vector<CommandTable> command_tables(CommandSet& set) {
  return {generate_command(set.generate),
          score_command(set.score),
          tokenize_command(set.tokenize),
          detokenize_command(set.detokenize),
          plan_command(set.plan),
          dump_command(set.dump),
          doctor_command(set.doctor),
          bench_command(set.bench),
          coll_command(set.coll),
          tune_command(set.tune),
          calibrate_command(set.calibrate),
          predict_command(set.predict),
          study_plan_command(set.study_plan),
          study_run_command(set.study_run),
          study_resume_command(set.study_resume),
          study_report_command(set.study_report),
          study_compare_command(set.study_compare),
          launch_command(set.launch),
          version_command(set.version)};
}

}  // namespace shardlm
