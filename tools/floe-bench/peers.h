// The libraries that floe can be measured beside, and where they are installed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contender.h"
#include "session.h"

namespace floe::bench {

struct PeerPlaces {
  std::string python;  // an interpreter with torch; "": .venv/bin/python if there is one, else python3
  std::string folder;  // what tools/dev peers fills; "": build-peers here, or beside the build directory
};

// What --peer takes, but for "all".
std::vector<std::string> peer_names();

// The peers that `names` mean: "all" is every one that is installed, but for Gloo over floe. An unknown or
// missing one is an error.
Result<std::vector<std::string>> choose_peers(const std::vector<std::string>& names,
                                              const PeerPlaces& places);

// A line for the table's head: "openmpi 4.1.4, gloo".
std::string describe_peers(const std::vector<std::string>& names, const PeerPlaces& places);

// All ranks together, in the same order. Returns once the peer is connected on this rank.
Result<std::unique_ptr<Contender>> start_peer(const std::string& name, const PeerPlaces& places,
                                              Session& session);

// A path below the folder of peers.
std::string peer_path(const PeerPlaces& places, std::string_view path);

// The interpreter for Python programs of the bench, whether it has a module, and the path of one of floe's
// own files.
std::string choose_python(const PeerPlaces& places);
bool has_module(const std::string& python, const std::string& module);
Result<std::string> find_beside(std::string_view file);

}  // namespace floe::bench
