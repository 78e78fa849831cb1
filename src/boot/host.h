// Which host this process is on, as far as shared memory is concerned.
#pragma once

#include <string>
#include <string_view>

namespace floe {

struct HostIdentity {
  // Equal for two processes exactly if abstract Unix sockets, process ids and descriptors can pass between
  // them: same boot of the same kernel, same network and pid namespaces, same user. A claim that the
  // descriptor exchange then proves.
  std::string id;
  std::string hostname;  // for messages
};

HostIdentity host_identity();

// Whether two hosts, by their ids, are known to be in different networks: what one listens for on loopback
// does not reach the other. Those of two users, or of two containers in one network, are not.
bool in_different_networks(std::string_view a, std::string_view b);

}  // namespace floe
