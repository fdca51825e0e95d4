"""Arguments in, text out: each verb is a module, or a package where it is large, on four shared rooms."""
