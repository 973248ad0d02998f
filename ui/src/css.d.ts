// Style sheets are put into app.css by esbuild.
declare module "*.css";
