package krb5

import (
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

// Types of authorization data that this package ignores (RFC 4120 §5.2.6). AD-IF-RELEVANT contains
// elements that a server may ignore if it does not know them. AD-KDCIssued adds rights, and does
// not restrict the ticket. AD-MANDATORY-FOR-KDC is for KDCs only.
const (
	adIfRelevant      = 1
	adKDCIssued       = 4
	adMandatoryForKDC = 8
)

// checkAuthorization checks the authorization data of a ticket or an authenticator. It returns an
// error if data has a type other than the constants above: the other types may restrict the use of
// the ticket, and this package does not implement such restrictions (RFC 4120 §5.2.6). The data of
// Active Directory and of MIT's KDC are within AD-IF-RELEVANT.
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
