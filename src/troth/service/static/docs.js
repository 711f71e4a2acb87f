"use strict";
/* The API's documentation. Its requests carry the token that is typed there, and no cookie. */
SwaggerUIBundle({
  url: "/api/v1/openapi.json",
  dom_id: "#swagger",
  deepLinking: false,
  docExpansion: "list",
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
  requestInterceptor: (request) => ({ ...request, credentials: "omit" }),
});
