#include "report.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "child.h"
#include "system.h"

namespace floe::bench {
namespace {

constexpr std::chrono::seconds kPlotTime{120};

struct Bandwidth {
  double algorithm, bus;  // GB/s
};

// As in nccl-tests: size over mean time, and what a perfect algorithm would move over the busiest link.
Bandwidth bandwidth(const Row& row) {
  if (row.us.mean <= 0) return {0, 0};
  const double algorithm = static_cast<double>(row.bytes) / row.us.mean / 1000;
  return {algorithm, algorithm * row.what.op->bus_factor(row.ranks)};
}

nlohmann::ordered_json to_json(const Row& row) {
  const auto [algbw, busbw] = bandwidth(row);
  const Manner& manner = row.what.manner;
  nlohmann::ordered_json line = {
      {"peer", row.library},
      {"op", row.what.op->name},
      {"dtype", type_name(row.what.type)},
      {"bytes", row.bytes},
      {"count", row.what.count},
      {"ranks", row.ranks},
      {"in_place", row.what.in_place},
      {"cold", manner.cold},
      {"touch", manner.touch},
      {"heap", manner.heap},
      {"offset", manner.offset},
      {"calls", row.calls},
      {"min_us", row.us.min},
      {"p50_us", row.us.p50},
      {"mean_us", row.us.mean},
      {"p99_us", row.us.p99},
      {"cpu_us", row.cpu_us ? nlohmann::ordered_json(*row.cpu_us) : nlohmann::ordered_json()},
      {"algbw_gbps", algbw},
      {"busbw_gbps", busbw},
      {"errors", row.errors},
      {"state", row.state},
      {"exchange_ns", row.placement.exchange_ns},
      {"read_gbps", row.placement.read_gbps},
      {"blocks", row.blocks},
      {"blocks_used", row.blocks_used},
  };
  if (row.ratio) {
    line["ratio_p50"] = row.ratio->p50;
    line["ratio_mean"] = row.ratio->mean;
    line["ratio_p99"] = row.ratio->p99;
  }
  return line;
}

// "-" where nothing was measured.
std::string cell(const std::optional<double>& value, int width, int digits) {
  return value ? fmt::format(" {:>{}.{}f}", *value, width, digits) : fmt::format(" {:>{}}", "-", width);
}

std::string nccl_half(const std::optional<Row>& row, bool ratio) {
  std::optional<double> none;
  const auto speed = row ? bandwidth(*row) : Bandwidth{};
  std::string text = row ? cell(row->us.mean, 10, 2) : cell(none, 10, 0);
  text += cell(row ? speed.algorithm : none, 7, 2) + cell(row ? speed.bus : none, 7, 2);
  text += cell(row ? static_cast<double>(row->errors) : none, 6, 0);
  if (ratio) text += cell(row && row->ratio ? row->ratio->p50 : none, 6, 2);
  return text;
}

std::string times_half(const std::optional<Row>& row, bool ratio) {
  std::string text;
  std::optional<double> none;
  for (const auto statistic : {&Statistics::min, &Statistics::p50, &Statistics::mean, &Statistics::p99})
    text += cell(row ? row->us.*statistic : none, 10, 3);
  text += cell(row ? static_cast<double>(row->errors) : none, 6, 0);
  if (!ratio) return text;
  for (const auto part : {&Row::Ratio::p50, &Row::Ratio::mean, &Row::Ratio::p99})
    text += cell(row && row->ratio ? (*row->ratio).*part : none, 6, 2);
  return text;
}

std::string state_of(const std::optional<Row>& row) {
  return row ? fmt::format("{} {}/{}", row->state, row->blocks_used, row->blocks) : "-";
}

std::string to_text(const Line& line, Columns columns, bool ratio) {
  const Row& row = line.out ? *line.out : *line.in;
  const Operation& op = *row.what.op;
  const auto half = columns == Columns::kNccl ? nccl_half : times_half;
  return fmt::format("{:>12} {:>12} {:>11} {:>5} {:>4} {:>11}{} {}  {}, {}", row.bytes, row.what.count,
                     type_name(row.what.type), op.reduces ? "sum" : "none",
                     op.rooted ? std::to_string(kRoot) : "-1", line.library, half(line.out, ratio),
                     half(line.in, ratio), state_of(line.out), state_of(line.in));
}

std::string size_text(uint64_t bytes) {
  constexpr std::string_view units = "KMG";
  if (bytes < 1024) return fmt::format("{}", bytes);
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && unit < 2; bytes /= 1024) ++unit;
  return fmt::format("{}{}", bytes, units[unit]);
}

std::string plot_python(const PeerPlaces& places) {
  const std::string own = peer_path(places, "plot/venv/bin/python");
  return access(own.c_str(), X_OK) == 0 ? own : choose_python(places);
}

Status check_plot(const Options& options) {
  const std::string python = plot_python(options.places);
  if (auto script = find_beside("plot.py"); !script.ok()) return script.status();
  if (!has_module(python, "matplotlib"))
    return error(FLOE_ERR_ENVIRONMENT,
                 "--plot: {} has no matplotlib: run tools/dev peers plot, or give --python", python);
  if (!options.plot.ends_with(".png"))
    return error(FLOE_ERR_ARGUMENT, "--plot {}: it must end in .png", options.plot);
  if (!std::ofstream(options.plot, std::ios::app)) return system_error("--plot " + options.plot, errno);
  return {};
}

// The script reads the CSV from its stdin.
Status draw(const Options& options, const std::string& csv) {
  const UniqueFd data(memfd_create("floe-bench.csv", MFD_CLOEXEC));
  if (!data.valid() || write(data.get(), csv.data(), csv.size()) != static_cast<ssize_t>(csv.size()) ||
      lseek(data.get(), 0, SEEK_SET) != 0)
    return system_error("--plot: handing over the figures", errno);
  auto script = find_beside("plot.py");
  if (!script.ok()) return script.status();
  auto child = Child::start({{plot_python(options.places), *script, options.plot}, data.get(), -1, false});
  if (!child.ok()) return child.status();
  const Deadline deadline = Deadline::in(kPlotTime);
  while (!(*child)->ended()) {
    if (deadline.passed())
      return error(FLOE_ERR_TIMEOUT, "--plot {}: plot.py (pid {}) has not ended within {} s", options.plot,
                   (*child)->pid(), kPlotTime.count());
    poll(nullptr, 0, 20);
  }
  if ((*child)->how().ends_with("status 0")) return {};
  return error(FLOE_ERR_SYSTEM, "--plot {}: plot.py {}", options.plot, (*child)->how());
}

}  // namespace

Status Report::begin(uint32_t ranks, const std::string& cpus) {
  machine_ = cpu_model();
  csv_ << "peer,op,dtype,bytes,count,ranks,in_place,cold,touch,heap,offset,calls,min_us,p50_us,mean_us,"
          "p99_us,cpu_us,algbw_gbps,busbw_gbps,errors,state,exchange_ns,read_gbps,blocks,blocks_used,"
          "machine\n";
  if (!options_.csv.empty()) {
    file_.open(options_.csv);
    if (!(file_ << csv_.str() << std::flush)) return system_error("--csv " + options_.csv, errno);
  }
  if (!options_.plot.empty()) FLOE_TRY(check_plot(options_));
  if (options_.json) return {};
  fmt::print("# floe {}.{}.{}, {} rank{}, {}, {}\n", FLOE_VERSION_MAJOR, FLOE_VERSION_MINOR,
             FLOE_VERSION_PATCH, ranks, ranks == 1 ? "" : "s", cpus, machine_);
  if (!options_.peers.empty()) fmt::print("# beside {}\n", describe_peers(options_.peers, options_.places));
  const Manner& manner = options_.manner;
  if (manner.cold || manner.touch || manner.heap || manner.offset > 0)
    fmt::print("# buffers:{}{}{} offset {}\n", manner.cold ? " cold," : "", manner.touch ? " touched," : "",
               manner.heap ? " of the library's heap," : "", manner.offset);
  print_head();
  return {};
}

void Report::print_head() const {
  const bool ratio = options_.compares(), nccl = options_.columns == Columns::kNccl;
  std::string half =
      nccl ? fmt::format(" {:>10} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong")
           : fmt::format(" {:>10} {:>10} {:>10} {:>10} {:>6}", "min", "p50", "mean", "p99", "#wrong");
  std::string units = nccl ? fmt::format(" {:>10} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "")
                           : fmt::format(" {0:>10} {0:>10} {0:>10} {0:>10} {1:>6}", "(us)", "");
  if (ratio)
    half +=
        nccl ? fmt::format(" {:>6}", "ratio") : fmt::format(" {:>6} {:>6} {:>6}", "x p50", "x mean", "x p99");
  units.resize(half.size(), ' ');
  fmt::print("# {:>59} {:^{}} {:^{}}\n", "", "out-of-place", half.size(), "in-place", half.size());
  fmt::print("# {:>10} {:>12} {:>11} {:>5} {:>4} {:>11}{} {}  placement (blocks)\n", "size", "count", "type",
             "redop", "root", "library", half, half);
  fmt::print("# {:>10} {:>12} {:>11} {:>5} {:>4} {:>11}{} {}\n", "(B)", "(elements)", "", "", "", "", units,
             units);
}

void Report::write(const Row& row) {
  errors_ += row.errors;
  const auto json = to_json(row);
  if (options_.json) fmt::print("{}\n", json.dump());
  std::string text;
  for (const auto& [name, value] : json.items())
    if (!name.starts_with("ratio"))
      text += fmt::format("{},", value.is_string() ? value.get<std::string>()
                                 : value.is_null() ? ""
                                                   : value.dump());
  text += fmt::format("\"{}\"\n", machine_);
  csv_ << text;
  if (file_.is_open()) file_ << text << std::flush;
}

void Report::add(std::vector<Line> lines) {
  for (const Line& line : lines) {
    if (!line.out && !line.in) continue;
    if (line.out) write(*line.out);
    if (line.in) write(*line.in);
    if (options_.json) continue;
    const Row& row = line.out ? *line.out : *line.in;
    if (table_.empty() && &line == &lines.front()) fmt::print("# {}\n", row.what.op->name);
    fmt::print("{}\n", to_text(line, options_.columns, options_.compares()));
  }
  std::fflush(stdout);
  table_.push_back(std::move(lines));
}

void Report::print_summary(const char* label, std::optional<Row> Line::*place) const {
  std::vector<Comparison> sizes;
  for (const auto& lines : table_) {
    Comparison size;
    for (const Line& line : lines) {
      const auto& row = line.*place;
      if (!row) continue;
      size.bytes = row->bytes;
      if (&line == &lines.front())
        size.floe = row->us;
      else if (std::find(options_.peers.begin(), options_.peers.end(), line.library) != options_.peers.end())
        size.peers.emplace_back(line.library, row->us);
    }
    if (!size.peers.empty()) sizes.push_back(std::move(size));
  }
  if (sizes.empty()) return;
  std::string text;
  for (const auto& [name, statistic] :
       {std::pair{"p50", &Statistics::p50}, {"mean", &Statistics::mean}, {"p99", &Statistics::p99}}) {
    const Summary s = summarize(sizes, statistic);
    text += fmt::format("{} {} {:.2f} (least {:.2f} at {}, {})", text.empty() ? ":" : ",", name,
                        s.geometric_mean, s.least, size_text(s.least_bytes), s.least_peer);
  }
  fmt::print("# {}: fastest peer / floe, geometric mean of {} size{}{}\n", label, sizes.size(),
             sizes.size() == 1 ? "" : "s", text);
}

void Report::end_of_table() {
  if (!options_.json && !options_.tune) {
    print_summary("out-of-place", &Line::out);
    print_summary("in-place", &Line::in);
    std::fflush(stdout);
  }
  table_.clear();
}

Status Report::end() {
  if (file_.is_open() && !file_.flush()) return system_error("--csv " + options_.csv, errno);
  return options_.plot.empty() ? Status() : draw(options_, csv_.str());
}

}  // namespace floe::bench
