// Package golden has examples of the output of xdrgen for tests, one for each construct of the
// language. X.x is the definition, X_gen.go the generated code.
package golden

//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o arrays_gen.go arrays.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o constants_gen.go constants.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o eligible_gen.go eligible.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o enums_gen.go enums.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o external_gen.go external.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o file_gen.go file.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o iterators_gen.go iterators.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o lists_gen.go lists.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o opaques_gen.go opaques.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o optional_gen.go optional.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o programs_gen.go programs.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o scalars_gen.go scalars.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o typedefs_gen.go typedefs.x
//go:generate go run github.com/nfsrdmad/nfsrdmad/rpc/xdr/xdrgen -package golden -o unions_gen.go unions.x
