package client

import "fmt"

// An RDMAVersion says which version of RPC-over-RDMA a Conn uses. Its zero value means RDMAVersion1.
type RDMAVersion string

// The versions. RDMANewest proposes version 2, and falls back to version 1 if the server does not accept it.
const (
	RDMAVersion1 RDMAVersion = "1" // RFC 8166
	RDMAVersion2 RDMAVersion = "2" // draft-ietf-nfsv4-rpcrdma-version-two-07
	RDMANewest   RDMAVersion = "newest"
)

// ParseRDMAVersion returns the RDMAVersion that s names: "1", "2" or "newest". It returns an error for any
// other text.
func ParseRDMAVersion(s string) (RDMAVersion, error) {
	switch v := RDMAVersion(s); v {
	case RDMAVersion1, RDMAVersion2, RDMANewest:
		return v, nil
	}
	return "", fmt.Errorf("version %q of RPC-over-RDMA is none of 1, 2, newest", s)
}
