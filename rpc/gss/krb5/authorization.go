package krb5

import (
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Types of authorization data that restrict nothing for a server that passes over them (RFC
// 4120 §5.2.6): what is within the first counts only where it is known, the second adds
// rights, and the third is for KDCs.
const (
	adIfRelevant      = 1
	adKDCIssued       = 4
	adMandatoryForKDC = 8
)

// checkAuthorization judges the authorization data of a ticket or an authenticator, of which
// we know no kind that restricts: any other makes the request fail (RFC 4120 §5.2.6). Those
// of Active Directory and of MIT's KDC stand within AD-IF-RELEVANT.
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
