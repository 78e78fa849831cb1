// floe-bench's command line.
#pragma once

#include <floe/floe.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure.h"
#include "peers.h"

namespace floe::bench {

enum class Place { kOut, kIn, kBoth };
enum class Columns { kNccl, kTimes };

struct Options {
  std::vector<const Operation*> ops;
  std::vector<floe_type_t> types;
  std::vector<uint64_t> sizes;  // bytes
  uint32_t ranks = 2;
  bool launch = true;  // start the ranks here; false: this process is one, of some launcher
  Place place = Place::kBoth;
  Manner manner;
  bool kernel = false;
  bool tune = false;
  std::vector<std::string> peers;
  PeerPlaces places;
  bool ordinary = false;               // beside what is asked for, floe on ordinary buffers
  std::vector<std::string> providers;  // and floe over these of libfabric
  bool roofline = false;               // and what memory alone takes
  uint64_t iterations = 0;             // of a block; 0: as many as `seconds` allow
  double seconds = 0.5;                // of one line's measurement, for each library

  Columns columns = Columns::kNccl;
  bool json = false;
  std::string csv;   // "" for none
  std::string plot;  // "" for none

  bool compares() const { return !peers.empty() || ordinary || roofline || !providers.empty(); }
};

// Empty if the program is to end now with `exit_code`: help was asked for, or an argument is wrong.
struct Parsed {
  std::optional<Options> options;
  int exit_code = 0;
};
Parsed parse(int argc, char** argv);

}  // namespace floe::bench
