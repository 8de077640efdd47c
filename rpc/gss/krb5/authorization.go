package krb5

import (
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Types of authorization data that a server may ignore (RFC 4120 §5.2.6). The elements within the
// first count only for a server that knows them; the second adds rights; the third is for KDCs.
const (
	adIfRelevant      = 1
	adKDCIssued       = 4
	adMandatoryForKDC = 8
)

// checkAuthorization judges the authorization data of a ticket or an authenticator. The request
// fails if it has a type other than those above, because this package implements no restriction
// (RFC 4120 §5.2.6). The data of Active Directory and of MIT's KDC are within AD-IF-RELEVANT.
func checkAuthorization(data types.AuthorizationData, who string) error {
	for _, e := range data {
		switch e.ADType {
		case adIfRelevant, adKDCIssued, adMandatoryForKDC:
		default:
			return failed(gss.DefectiveCred, generic, "the ticket of %s is restricted by authorization data of type %d, which is not known here", who, e.ADType)
		}
	}
	return nil
}
