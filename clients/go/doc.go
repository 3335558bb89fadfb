// Package memoryd is the client of memoryd, the memory server for LLM agents.
//
//	client, err := memoryd.New("localhost:50051")
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	session := client.Session("s1")
//	_, err = session.Put(ctx, memoryd.Text("user", "Hello, world!"))
//	reply, err := session.Get(ctx) // reply.Messages go to the model.
//
// A [Client] is safe for concurrent use. It gives handles: [Client.Session] for one conversation,
// [Client.User] for what all conversations know of a user, [Client.Namespace] for items. A handle
// costs nothing and makes no call. A [Worker] serves blocks, models and embedders of this process
// to the server.
//
// # Calls
//
// A method is the RPC of the same name. Package memorydpb has the messages, and the contracts of
// each RPC with its errors. The context's deadline is the call's time, repetitions included; without
// one it is that of [WithTimeout].
//
// A call that fails UNAVAILABLE, or that a stopping server cancels, has an unknown outcome. It is
// repeated until its deadline. A call that changes something carries a request id, so it is done
// once however often it is sent. When the time is over, the error is the one that left the outcome
// open, if any attempt did; [MayHaveBeenDone] tells. RetryJob, CancelJob and CopyTo have no request
// id: they wait for a connection and are sent once. A call that the server refuses with the time
// when to come again is repeated then. With [WithoutRetries] nothing is repeated, and a call that
// does not reach the server fails at once.
//
// # Errors
//
// A failed call returns an [*Error]. [errors.Is] compares its reason:
//
//	if errors.Is(err, memoryd.ErrRevisionMismatch) { ... }
//
// google.golang.org/grpc/status reads its code, and [context.DeadlineExceeded] and
// [context.Canceled] are found by errors.Is as usual.
package memoryd
