package server

import (
	"slices"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// findVersions tells which versions of RPC-over-RDMA clients can use. There is nothing to tell if the server
// is not to listen for RDMA.
func findVersions(cfg *config.Config) []Finding {
	if !slices.ContainsFunc(cfg.RDMA, func(l config.Listen) bool { return !l.None }) {
		return nil
	}
	detail := "version 1, which Linux's clients speak; rdma_versions = [1, 2] adds version 2, for clients that propose it"
	if cfg.SpeaksRDMA(2) {
		detail = "versions 1 and 2: version 2 with clients that propose it, version 1 with all others"
	}
	return []Finding{{What: "RPC-over-RDMA", OK: true, Detail: detail}}
}
