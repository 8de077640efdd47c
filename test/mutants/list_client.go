package main

// clientMutants are those of client.
var clientMutants = []mutant{
	{"a measurement goes on though it was called off", "client/bench/bench.go",
		"			b.fail(context.Cause(ctx))",
		"",
		"client/bench", "TestBenchCalledOff"},
	{"a measurement leaves its directory behind", "client/bench/bench.go",
		"if cleanup := b.clean(); err == nil {",
		"if cleanup := error(nil); err == nil {",
		"client/bench", "TestBenchCalledOff TestBenchWorkloads"},
}
